// Usage by month, as invoices state it: by model or key and kind of price.
import { Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { type MonthLine, type Months, monthLines, projected } from "../../domain/usage.ts";
import { text as all } from "../../text/usage.ts";
import { Choice } from "../../ui/choice.tsx";
import { type Column, DataTable } from "../../ui/data-table.tsx";
import { count, inUtc, usd, usdOfCents } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section, Stats } from "../../ui/page.tsx";
import { useNow } from "../../ui/time.tsx";

const text = all.month;

export function UsageByMonth(): ReactNode {
  const [by, setBy] = useFilter("by");
  const [months, setMonths] = useFilter("months");
  const isByKey = by === "key";
  const query = new URLSearchParams({ from: months === "" ? "current" : `current(-${months})`, to: "current" });
  const usage = useGet<Months>(`/payment/usage?${query}`, { everyMs: 60_000 });
  const keys = useGet<Responses["GET /payment/usage/tokens"]>(`/payment/usage/tokens?${query}`, { enabled: isByKey });
  return (
    <Stack gap="md">
      <Group gap="sm">
        <Choice label={all.by} options={all.monthBys} value={isByKey ? "key" : ""} onChange={setBy} />
        <Choice label={all.months} options={all.monthPeriods} value={months} onChange={setMonths} />
      </Group>
      <Loaded query={usage}>
        {(found) => (
          <Stack gap="md">
            <MonthStats of={found} />
            <Section
              about={
                <>
                  {text.matches} <Link to="/billing">{text.invoices}</Link>
                </>
              }
            >
              {isByKey ? (
                <Loaded query={keys}>
                  {({ tokens }) => (
                    <Lines of={tokens.flatMap((key) => monthLines(key, () => key.name))} name={all.key} />
                  )}
                </Loaded>
              ) : (
                <Lines of={monthLines(found, ({ model }) => model.model_name)} name={all.model} />
              )}
            </Section>
          </Stack>
        )}
      </Loaded>
    </Stack>
  );
}

function MonthStats({ of }: { of: Months }): ReactNode {
  const nowMs = useNow();
  return (
    <Stats
      of={of.months.toReversed().map((month) => ({
        label: month.period,
        value: usdOfCents(month.total_cost),
        note:
          month.invoice_id === "NOT_FINAL"
            ? text.projected(usd(roundCents(projected(month, nowMs))), inUtc(month.interval.to).slice(0, 10))
            : text.invoiced,
      }))}
    />
  );
}

const roundCents = (amount: number): number => (amount >= 0.01 ? Math.round(amount * 100) / 100 : amount);

const columnsOf = (name: string): readonly Column<MonthLine>[] => [
  { name: text.name, value: (line) => line.month },
  { name, value: (line) => line.of },
  { name: text.pricing, value: (line) => line.pricing },
  { name: text.discount, value: (line) => line.discount, isMinor: true },
  { name: text.units, value: (line) => line.units, show: (line) => count(line.units) },
  { name: all.columns.cost, value: (line) => line.cost, show: (line) => usd(line.cost) },
];

function Lines({ of, name }: { of: readonly MonthLine[]; name: string }): ReactNode {
  return (
    <>
      <DataTable
        name="usage-by-month"
        rows={of}
        columns={columnsOf(name)}
        keyOf={(line) => [line.month, line.of, line.pricing, line.discount].join(" ")}
        empty={all.empty}
      />
      {of.length > 0 && (
        <Text size="sm" ta="right" mt="xs" fw={600}>
          {usd(of.reduce((sum, { cost }) => sum + cost, 0))}
        </Text>
      )}
    </>
  );
}
