import type { Responses } from "../../proto/gen/responses.ts";
import { count, usd, usdOfCents } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { useFilter } from "../place.ts";
import { Bars } from "./chart.ts";
import { Choice } from "./controls.ts";
import { type Column, Table } from "./table.ts";

type Item = Days["days"][number]["items"][number];

type Days = Responses["GET /v1/usage/days"];

interface Line extends Item {
  readonly day: string;
}

const periods = [
  ["", "last 30"],
  ["7", "last 7"],
  ["62", "last 62"],
] as const;

export type DayDimension = "model" | "key" | "token";

/** Usage by the day (UTC) on which it was booked. */
export function UsageByDay({ by }: { by: DayDimension }): View {
  const [days, setDays] = useFilter("days");
  const query = new URLSearchParams({ by, from: dayAgo(Number(days || 30) - 1) });
  const usage = useGet<Days>(`/v1/usage/days?${query}`, 60_000);
  return html`<div class="bar"><${Choice} label="Days (UTC)" value=${days} onChoice=${setDays}
      options=${periods} /></div>
    ${by === "token" && html`<p class="quiet">Only scoped tokens with a spending limit are recorded. <a href="/console/keys">Inspect a token</a> to see its id.</p>`}
    ${shown(usage, ({ days: list, is_truncated: isTruncated }) => {
      const lines = list.toReversed().flatMap(({ day, items }) => items.map((item): Line => ({ ...item, day })));
      const total = list.reduce((sum, { total_cost: cost }) => sum + cost, 0);
      return html`<p><strong>${usdOfCents(total)}</strong> in these days${by === "token" ? ", by these tokens" : ""}</p>
        <${Bars} title=${`Cost per day from ${list[0]?.day} to ${list.at(-1)?.day}`}
          bars=${list.map(({ day, total_cost: cost }) => ({ name: day, value: cost, text: usdOfCents(cost) }))} />
        ${isTruncated && html`<p class="stale">Only the most expensive rows are listed. Choose fewer days to see others.</p>`}
        <${Table} name="usage-by-day" rows=${lines} columns=${columnsOf(by)} keyOf=${(line: Line) => `${line.day} ${line.id}`}
          empty=${empty[by]} />`;
    })}`;
}

const empty: Readonly<Record<DayDimension, View>> = {
  model: html`No usage in this period. <a href="/console">Send a request</a>.`,
  key: html`No usage in this period. <a href="/console/keys">Create a key</a>.`,
  token: html`No usage by scoped tokens with a limit in this period. <a href="/console/keys">Create one</a>.`,
};

function columnsOf(by: DayDimension): readonly Column<Line>[] {
  const of: Record<DayDimension, readonly Column<Line>[]> = {
    model: [{ name: "Model", value: (line) => line.name || "–" }],
    key: [{ name: "Key", value: (line) => line.name || (line.id === "" ? "no key (GPU time)" : line.id) }],
    token: [
      {
        name: "Token",
        value: (line) => line.id,
        show: (line) => html`<code title=${line.id}>${line.id.slice(0, 12)}…</code>`,
      },
      { name: "Key", value: (line) => line.name || "deleted key" },
      {
        name: "Spending limit",
        value: (line) => line.spending_limit ?? 0,
        show: (line) => (line.spending_limit === null ? "–" : usd(line.spending_limit)),
      },
    ],
  };
  return [
    { name: "Day", value: (line) => line.day },
    ...of[by],
    { name: "Requests", value: (line) => line.requests, show: (line) => count(line.requests) },
    { name: "Tokens in", value: (line) => line.input_tokens, show: (line) => count(line.input_tokens) },
    { name: "Tokens out", value: (line) => line.output_tokens, show: (line) => count(line.output_tokens) },
    { name: "USD", value: (line) => line.cost / 100, show: (line) => usdOfCents(line.cost) },
  ];
}

const dayAgo = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
