import { useApi } from "../api.ts";
import { count, usd, usdOfCents } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { useFilter } from "../place.ts";
import { Bars } from "./chart.ts";
import { Choice } from "./choice.ts";
import { type Column, Table } from "./table.ts";

interface Item {
  readonly id: string;
  readonly name: string;
  /** USD, of a scoped token. */
  readonly spending_limit: number | null;
  readonly requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  /** Cents. */
  readonly cost: number;
}

interface Days {
  readonly days: readonly { readonly day: string; readonly total_cost: number; readonly items: readonly Item[] }[];
  readonly is_truncated: boolean;
}

interface Line extends Item {
  readonly day: string;
}

const periods = [
  ["", "the last 30"],
  ["7", "the last 7"],
  ["62", "the last 62"],
] as const;

export type DayDimension = "model" | "key" | "token";

/** What was used on each day (UTC), which is when it was booked. */
export function UsageByDay({ by }: { by: DayDimension }): View {
  const api = useApi();
  const [days, setDays] = useFilter("days");
  const usage = useLoaded(
    () => api.call<Days>("GET", `/v1/usage/days?${new URLSearchParams({ by, from: dayAgo(Number(days || 30) - 1) })}`),
    [api, by, days],
    60_000,
  );
  return html`<div class="bar"><${Choice} label="Days (UTC)" value=${days} onChoice=${setDays}
      options=${periods} /></div>
    ${by === "token" && html`<p class="quiet">Scoped tokens that have a limit of their own; of others it is not kept which they were. <a href="/console/keys">Inspect a token</a> to see its id.</p>`}
    ${shown(usage, ({ days: list, is_truncated: isTruncated }) => {
      const lines = list.toReversed().flatMap(({ day, items }) => items.map((item): Line => ({ ...item, day })));
      const total = list.reduce((sum, { total_cost: cost }) => sum + cost, 0);
      return html`<p><strong>${usdOfCents(total)}</strong> in these days${by === "token" ? ", by these tokens" : ""}</p>
        <${Bars} title=${`Cost of each day, from ${list[0]?.day} to ${list.at(-1)?.day}`}
          bars=${list.map(({ day, total_cost: cost }) => ({ name: day, value: cost, text: usdOfCents(cost) }))} />
        ${isTruncated && html`<p class="stale">Only the dearest are listed: ask for fewer days to see the others.</p>`}
        <${Table} name="usage-by-day" rows=${lines} columns=${columnsOf(by)} keyOf=${(line: Line) => `${line.day} ${line.id}`}
          empty=${empty[by]} />`;
    })}`;
}

const empty: Readonly<Record<DayDimension, View>> = {
  model: html`Nothing was used in this time. <a href="/console">Make a first call</a>.`,
  key: html`Nothing was used in this time. <a href="/console/keys">Make a key</a> and call with it.`,
  token: html`No scoped token with a limit was used in this time. <a href="/console/keys">Sign one</a> for a program that should hold no key.`,
};

function columnsOf(by: DayDimension): readonly Column<Line>[] {
  const of: Record<DayDimension, readonly Column<Line>[]> = {
    model: [{ name: "Model", value: (line) => line.name || "–" }],
    key: [{ name: "Key", value: (line) => line.name || (line.id === "" ? "no key: time of deployments" : line.id) }],
    token: [
      {
        name: "Token",
        value: (line) => line.id,
        show: (line) => html`<code title=${line.id}>${line.id.slice(0, 12)}…</code>`,
      },
      { name: "Signed with", value: (line) => line.name || "a key that is gone" },
      {
        name: "May spend in all",
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
