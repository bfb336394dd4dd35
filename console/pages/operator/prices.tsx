// Price book with all versions, and discounts.
import { Badge, NumberInput, Select, SimpleGrid, Stack, Tabs, Text, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { lazy, type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import {
  type Price,
  type PriceKind,
  ratesIn,
  ratesText,
  stateOf,
  tiersText,
  timeIn,
  unitsOf,
} from "../../domain/prices.ts";
import { text } from "../../text/operator-prices.ts";
import { Choice } from "../../ui/choice.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import type { DialogProps } from "../../ui/dialog.tsx";
import type { Fields } from "../../ui/form.tsx";
import { NoteAct } from "../../ui/note-act.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { PageTabs } from "../../ui/tabs.tsx";
import { Ago } from "../../ui/time.tsx";

const Discounts = lazy(async () => ({ default: (await import("./discounts.tsx")).Discounts }));

const path = "/v1/admin/prices";
const kinds = ["model", "gpu", "gpu_asleep", "container"] as const satisfies readonly PriceKind[];

export function Prices(): ReactNode {
  return (
    <Page title={text.title} about={text.about} actions={<SetPrice label={text.set} isMain />}>
      <PageTabs label={text.tabsLabel} tabs={Object.entries(text.tabs)}>
        <Tabs.Panel value="prices">
          <Book />
        </Tabs.Panel>
        <Tabs.Panel value="discounts">
          <Discounts />
        </Tabs.Panel>
      </PageTabs>
    </Page>
  );
}

function Book(): ReactNode {
  const [kind, setKind] = useFilter("kind");
  const [versions, setVersions] = useFilter("versions");
  const prices = useGet<Responses["GET /v1/admin/prices"]>(path);
  return (
    <Loaded query={prices}>
      {({ prices: all }) => (
        <DataTable
          name="prices"
          rows={all.filter(
            (one) => (kind === "" || one.kind === kind) && (versions === "all" || stateOf(one, Date.now()) !== "past"),
          )}
          columns={columns}
          keyOf={({ version }) => `${version}`}
          filters={
            <>
              <Choice label={text.kind} options={text.kinds} value={kind} onChange={setKind} />
              <Choice label={text.versions} options={text.versionChoices} value={versions} onChange={setVersions} />
            </>
          }
          empty={text.empty}
        />
      )}
    </Loaded>
  );
}

const stateColors = { current: "green", future: "blue", past: "gray" } as const;

const columns: readonly Column<Price>[] = [
  {
    name: text.subject,
    value: ({ subject }) => subject,
    show: ({ subject, kind }) => (
      <>
        <Text size="sm" fw={600}>
          {subject}
        </Text>
        <Text size="xs" c="dimmed">
          {text.kindOf[kind]}
        </Text>
      </>
    ),
  },
  {
    name: text.rates,
    value: ({ rates }) => ratesText(rates),
    show: ({ rates }) => (
      <Text size="sm" maw={480}>
        {ratesText(rates)}
      </Text>
    ),
  },
  { name: text.tiers, value: ({ tiers }) => tiersText(tiers) },
  {
    name: text.from,
    value: ({ effective_from: from }) => from,
    show: ({ effective_from: from }) => <Ago at={from} />,
  },
  {
    name: text.state,
    value: (one) => text[stateOf(one, Date.now())],
    show: (one) => {
      const state = stateOf(one, Date.now());
      return (
        <Badge color={stateColors[state]} variant="light" tt="none" className="status">
          {text[state]}
        </Badge>
      );
    },
  },
  actionsColumn<Price>((one) => one.current && <SetPrice label={text.change} of={one} />),
];

interface SetPriceProps extends Pick<DialogProps, "label"> {
  readonly isMain?: boolean;
  /** The price to change; omitted: of something else. */
  readonly of?: Price;
}

function SetPrice({ label, isMain, of }: SetPriceProps): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [chosen, setKind] = useState<PriceKind>("model");
  const kind = of?.kind ?? chosen;
  const set = async (note: string, fields: Fields) => {
    const tiers = kind === "model" ? { tiers: tiersIn(fields) } : {};
    const subject = of?.subject ?? fields["subject"]?.trim();
    const from = timeIn(fields["from"]);
    await api.call("POST", path, { kind, subject, rates: ratesIn(fields, kind), ...tiers, effective_from: from, note });
    await refresh(path);
  };
  return (
    <NoteAct
      label={label}
      title={of ? `${text.change}: ${of.subject}` : text.set}
      {...(isMain ? { variant: "filled", leftSection: <IconPlus size={16} /> } : {})}
      body={text.emptyFree}
      command={`stoker admin price create ${kind} ${of?.subject ?? "SUBJECT"} --note TEXT`}
      done={text.setDone}
      fields={
        <Stack gap="sm">
          {!of && (
            <SimpleGrid cols={{ base: 1, sm: 2 }}>
              <Select
                label={text.kind}
                data={kinds.map((value) => ({ value, label: text.kindOf[value] }))}
                value={kind}
                allowDeselect={false}
                onChange={(value) => setKind(kinds.find((one) => one === value) ?? "model")}
              />
              <TextInput label={text.subjectHints[kind]} name="subject" maxLength={256} required />
            </SimpleGrid>
          )}
          <SimpleGrid cols={{ base: 1, sm: 2 }} key={kind}>
            {unitsOf(kind).map((unit) => (
              <NumberInput
                key={unit}
                label={unit === "image_steps" ? text.stepsField : text.per(text.units[unit])}
                {...(unit === "image_steps" ? { description: text.stepsHint } : {})}
                name={unit}
                min={0}
                decimalScale={9}
                {...(of?.rates[unit] === undefined ? {} : { defaultValue: of.rates[unit] })}
              />
            ))}
            {kind === "model" && (
              <>
                <NumberInput
                  label={text.priority}
                  name="priority"
                  min={0}
                  max={100}
                  decimalScale={2}
                  defaultValue={of?.tiers.priority ?? 1}
                />
                <NumberInput
                  label={text.flex}
                  name="flex"
                  min={0}
                  max={100}
                  decimalScale={2}
                  defaultValue={of?.tiers.flex ?? 1}
                />
              </>
            )}
          </SimpleGrid>
          <TextInput label={text.effective} description={text.effectiveHint} name="from" type="datetime-local" />
        </Stack>
      }
      onAct={set}
    />
  );
}

const tiersIn = ({ priority = "", flex = "" }: Fields): Price["tiers"] => ({
  ...(priority === "" ? {} : { priority: Number(priority) }),
  ...(flex === "" ? {} : { flex: Number(flex) }),
});
