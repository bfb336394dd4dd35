// Usage by model, key or day.
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { count, inUtc, usdOfCents } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Choice } from "../parts/controls.ts";
import { type Column, Table } from "../parts/table.ts";
import { type DayDimension, UsageByDay } from "../parts/usage-by-day.ts";
import { useFilter } from "../place.ts";

type Item = Usage["months"][number]["items"][number];

type Usage = Responses["GET /payment/usage"];

type KeyUsage = Responses["GET /payment/usage/tokens"]["tokens"][number];

interface Line {
  readonly month: string;
  readonly of: string;
  readonly pricing: string;
  readonly units: number;
  readonly cost: number;
}

const dimensions = [
  ["", "month and model"],
  ["key", "month and key"],
  ["day-model", "day and model"],
  ["day-key", "day and key"],
  ["day-token", "day and scoped token"],
] as const;
const periods = [
  ["", "current"],
  ["2", "last 3"],
  ["11", "last 12"],
] as const;

export function UsagePage(): View {
  const [by, setBy] = useFilter("by");
  const day = /^day-(model|key|token)$/.exec(by)?.[1] as DayDimension | undefined;
  return html`<div class="bar"><${Choice} label="By" value=${by} options=${dimensions} onChoice=${setBy} /></div>
    ${day ? html`<${UsageByDay} by=${day} />` : html`<${UsageByMonth} by=${by} />`}`;
}

function UsageByMonth({ by }: { by: string }): View {
  const api = useApi();
  const [from, setFrom] = useFilter("from");
  const query = new URLSearchParams({ from: from === "" ? "current" : `current(-${from})`, to: "current" });
  const usage = useLoaded(
    async () => {
      const total = await api.call<Usage>("GET", `/payment/usage?${query}`);
      if (by !== "key") return { total, lines: linesOf(total, ({ model }) => model.model_name) };
      const { tokens } = await api.call<{ readonly tokens: readonly KeyUsage[] }>(
        "GET",
        `/payment/usage/tokens?${query}`,
      );
      return { total, lines: tokens.flatMap((key) => linesOf(key, () => key.name)) };
    },
    [api, by, from],
    30_000,
  );
  return html`<div class="bar"><${Choice} label="Months (UTC)" value=${from} onChoice=${setFrom}
      options=${periods} /></div>
    ${shown(
      usage,
      ({ total, lines }) => html`<dl>${total.months.map(
        (month) =>
          html`<dt>${month.period}</dt><dd><strong>${usdOfCents(month.total_cost)}</strong>${" "}${
            month.invoice_id === "NOT_FINAL"
              ? `so far, projected ${usdOfCents(projected(month))} by ${inUtc(month.interval.to)}`
              : ""
          }</dd>`,
      )}</dl>
      <${Table} name="usage" rows=${lines} columns=${columns} keyOf=${(line: Line) => `${line.month} ${line.of} ${line.pricing}`}
        empty="No usage in this period." />`,
    )}`;
}

function linesOf(usage: Usage, of: (item: Item) => string): Line[] {
  const lines = new Map<string, Line>();
  for (const { period, items } of usage.months)
    for (const item of items) {
      const key = `${period} ${of(item)} ${item.pricing_type}`;
      const before = lines.get(key);
      lines.set(key, {
        month: period,
        of: of(item),
        pricing: item.pricing_type,
        units: item.units + (before?.units ?? 0),
        cost: item.cost + (before?.cost ?? 0),
      });
    }
  return [...lines.values()];
}

function projected({ period, interval, total_cost: cost }: Usage["months"][number]): number {
  const [year, month] = period.split(".").map(Number);
  const startMs = Date.UTC(year as number, (month as number) - 1);
  // Avoids a wild projection in the first hour of a month.
  const elapsedMs = Math.max(Date.now() - startMs, 3_600_000);
  return cost * Math.max(1, (interval.to - startMs) / elapsedMs);
}

const columns: readonly Column<Line>[] = [
  { name: "Month", value: (line) => line.month },
  { name: "Model or key", value: (line) => line.of },
  { name: "Priced by", value: (line) => line.pricing },
  { name: "Units", value: (line) => line.units, show: (line) => count(line.units) },
  { name: "USD", value: (line) => line.cost / 100, show: (line) => usdOfCents(line.cost) },
];
