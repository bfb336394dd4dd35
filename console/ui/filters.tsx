import { Button, TextInput, type TextInputProps } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { type ReactNode, useEffect, useState } from "react";
import { useFilter } from "../app/place.ts";
import { text } from "../text/common.ts";

interface MoreProps {
  readonly label?: string;
  readonly of: {
    readonly hasNextPage: boolean;
    readonly isFetchingNextPage: boolean;
    readonly fetchNextPage: () => unknown;
  };
}

/** Button that loads the next page of a list. Nothing on the last. */
export function More({ of, label = text.more }: MoreProps): ReactNode {
  if (!of.hasNextPage) return null;
  return (
    <Button variant="default" size="xs" mt="sm" loading={of.isFetchingNextPage} onClick={() => void of.fetchNextPage()}>
      {label}
    </Button>
  );
}

const settleMs = 300;

interface FilterFieldProps extends Pick<TextInputProps, "maxLength" | "w"> {
  readonly label: string;
  /** Name of the filter in the address. */
  readonly name: string;
  /** The main one of the page, which `/` focuses. */
  readonly isSearch?: boolean;
}

/** Text that the server searches for, kept in the address shortly after the last keystroke. */
export function FilterField({ label, name, isSearch, ...field }: FilterFieldProps): ReactNode {
  const [value, setValue] = useFilter(name);
  const [typed, setTyped] = useState(value);
  const settle = useDebouncedCallback((next: string) => setValue(next.trim()), settleMs);
  // The address changes elsewhere too: by a link, or by the back button.
  useEffect(() => setTyped((now) => (now.trim() === value ? now : value)), [value]);
  return (
    <TextInput
      size="sm"
      aria-label={label}
      placeholder={label}
      type={isSearch ? "search" : "text"}
      {...(isSearch ? { leftSection: <IconSearch size={16} /> } : {})}
      {...field}
      value={typed}
      onChange={({ currentTarget }) => {
        setTyped(currentTarget.value);
        settle(currentTarget.value);
      }}
    />
  );
}

/** A day (UTC) that limits a list, kept in the address. */
export function DateFilter({ label, name }: { label: string; name: string }): ReactNode {
  const [value, setValue] = useFilter(name);
  return (
    <TextInput
      size="sm"
      type="date"
      label={label}
      value={value}
      onChange={({ currentTarget }) => setValue(currentTarget.value)}
    />
  );
}
