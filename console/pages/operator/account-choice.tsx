// Choice of an account by its name, e-mail address or uid, which the server searches for.
import { Select, type SelectProps } from "@mantine/core";
import { useDebouncedValue, useDisclosure } from "@mantine/hooks";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/operator-accounts.ts";
import { type Account, accountsPath, pathOfAccount } from "./account-path.ts";

type Listed = Responses["GET /v1/admin/accounts"];

const settleMs = 300;
const maxListed = "20";

interface AccountChoiceProps extends Pick<SelectProps, "w" | "description" | "size" | "name" | "aria-label"> {
  readonly label?: string;
  /** uid; empty: none. */
  readonly value: string;
  readonly onChange: (uid: string) => void;
  /** Values besides accounts, listed first. */
  readonly others?: readonly string[];
}

export function AccountChoice({ value, onChange, others = [], ...field }: AccountChoiceProps): ReactNode {
  const [isOpen, list] = useDisclosure();
  const [typed, setTyped] = useState("");
  const isAccount = value !== "" && !others.includes(value);
  const chosen = useGet<Account>(pathOfAccount(value), { enabled: isAccount });
  const label = isAccount && chosen.data ? labelOf(chosen.data) : value;
  const [settled] = useDebouncedValue(typed.trim(), settleMs);
  // The text of the chosen account is no search.
  const query = settled === label ? "" : settled;
  const found = useGet<Listed>(`${accountsPath}?${new URLSearchParams({ query, limit: maxListed })}`, {
    enabled: isOpen,
  });
  const options = [
    ...others.filter((one) => one.includes(query)).map((one) => ({ value: one, label: one })),
    ...(found.data?.accounts ?? []).map((one) => ({ value: one.uid, label: labelOf(one) })),
  ];
  return (
    <Select
      size="sm"
      placeholder={text.find}
      {...field}
      data={options.some((one) => one.value === value) || value === "" ? options : [{ value, label }, ...options]}
      value={value === "" ? null : value}
      onChange={(uid) => onChange(uid ?? "")}
      searchable
      clearable
      onSearchChange={setTyped}
      // The server has searched.
      filter={({ options: all }) => all}
      nothingFoundMessage={
        found.isFetching || query !== settled ? text.searching : found.error ? text.searchFailed : text.noneFound
      }
      onDropdownOpen={list.open}
      onDropdownClose={list.close}
      comboboxProps={{ width: 320, position: "bottom-start" }}
    />
  );
}

const labelOf = ({ display_name: name, email }: Pick<Account, "display_name" | "email">): string =>
  name === email ? email : `${name} · ${email}`;

interface AccountFilterProps extends Pick<AccountChoiceProps, "others" | "label" | "size" | "w" | "aria-label"> {
  /** Name of the filter in the address. */
  readonly name: string;
}

/** Account that limits a list, kept in the address. */
export function AccountFilter({ name, ...choice }: AccountFilterProps): ReactNode {
  const [value, setValue] = useFilter(name);
  return <AccountChoice {...choice} value={value} onChange={setValue} />;
}

/** Field of a form; its value is the uid. */
export function AccountField(field: Pick<AccountChoiceProps, "label" | "description"> & { name: string }): ReactNode {
  const [value, setValue] = useState("");
  return <AccountChoice {...field} value={value} onChange={setValue} />;
}
