import { NumberInput, SimpleGrid, Stack, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { timeIn } from "../../domain/prices.ts";
import { text as all } from "../../text/operator-prices.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import type { Fields } from "../../ui/form.tsx";
import { percent } from "../../ui/format.ts";
import { NoteAct } from "../../ui/note-act.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { AccountField } from "./account-choice.tsx";
import { AccountLink } from "./account-status.tsx";

const text = all.discounts;
const path = "/v1/admin/discounts";

type Discount = Responses["GET /v1/admin/discounts"]["discounts"][number];

export function Discounts(): ReactNode {
  const discounts = useGet<Responses["GET /v1/admin/discounts"]>(path);
  return (
    <Section about={text.about} actions={<NewDiscount />}>
      <Loaded query={discounts}>
        {({ discounts: rows }) => (
          <DataTable
            name="discounts"
            id="discount-"
            rows={rows}
            columns={columns}
            keyOf={({ id }) => id}
            empty={text.empty}
          />
        )}
      </Loaded>
    </Section>
  );
}

const isOver = ({ effective_to: to }: Discount): boolean => to !== null && Date.parse(to) <= Date.now();

const columns: readonly Column<Discount>[] = [
  { name: text.name, value: ({ name }) => name },
  { name: text.text, value: (one) => one.text, isMinor: true },
  { name: text.percent, value: (one) => one.percent, show: (one) => percent(one.percent / 100) },
  {
    name: text.account,
    value: ({ uid, account_email: email }) => email ?? uid ?? text.all,
    show: ({ uid, account_email: email }) =>
      uid === null ? text.all : <AccountLink uid={uid} name={email ?? undefined} />,
  },
  {
    name: text.applies,
    value: ({ model, surface }) => [model, surface].filter((part) => part !== null).join(", ") || text.all,
  },
  { name: text.from, value: (one) => one.effective_from, show: (one) => <Ago at={one.effective_from} /> },
  {
    name: text.to,
    value: (one) => one.effective_to,
    show: (one) => (one.effective_to === null ? text.open : <Ago at={one.effective_to} />),
  },
  actionsColumn<Discount>((one) => !isOver(one) && <End one={one} />),
];

function End({ one: { id, name } }: { one: Discount }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Act
      label={text.end}
      command={`stoker admin discount delete ${id}`}
      confirm={{ title: text.endTitle(name), body: text.endBody }}
      done={text.ended}
      onAct={async () => {
        await api.call("DELETE", `${path}/${encodeURIComponent(id)}`);
        await refresh(path);
      }}
    />
  );
}

function NewDiscount(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const create = async (note: string, fields: Fields) => {
    const orNull = (name: string) => fields[name]?.trim() || null;
    await api.call("POST", path, {
      name: fields["name"],
      text: orNull("text"),
      percent: Number(fields["percent"]),
      uid: orNull("uid"),
      model: orNull("model"),
      surface: orNull("surface"),
      effective_from: timeIn(fields["from"]),
      effective_to: timeIn(fields["to"]),
      note,
    });
    await refresh(path);
  };
  return (
    <NoteAct
      label={text.add}
      leftSection={<IconPlus size={14} />}
      command="stoker admin discount create PERCENT --name NAME --note TEXT"
      done={text.addDone}
      fields={
        <Stack gap="sm">
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <TextInput label={text.name} description={text.nameHint} name="name" maxLength={128} required />
            <NumberInput
              label={text.percent}
              description=" "
              name="percent"
              min={0.01}
              max={100}
              decimalScale={2}
              required
            />
          </SimpleGrid>
          <TextInput label={text.text} name="text" maxLength={1000} />
          <SimpleGrid cols={{ base: 1, sm: 3 }}>
            <AccountField label={text.account} description={text.every} name="uid" />
            <TextInput label={text.model} description={text.every} name="model" maxLength={256} />
            <TextInput label={text.surface} description={text.every} name="surface" maxLength={64} />
          </SimpleGrid>
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <TextInput label={all.effective} description={all.effectiveHint} name="from" type="datetime-local" />
            <TextInput label={text.until} description={text.openHint} name="to" type="datetime-local" />
          </SimpleGrid>
        </Stack>
      }
      onAct={create}
    />
  );
}
