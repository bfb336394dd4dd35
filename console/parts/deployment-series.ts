// How a deployment was asked over time, how long it took, and why requests ended.
import { useApi } from "../api.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { useFilter } from "../place.ts";
import { endingOf } from "../request-log.ts";
import { Bars, Lines } from "./chart.ts";
import { Choice } from "./choice.ts";

interface Quantiles {
  readonly p50: number;
  readonly p95: number;
}

interface Series {
  readonly step_seconds: number;
  readonly steps: readonly {
    readonly from: number;
    readonly requests: number;
    readonly errors: number;
    readonly output_tokens: number;
    readonly first_byte_ms: Quantiles | null;
    readonly total_ms: Quantiles | null;
    readonly queue_ms_p95: number | null;
  }[];
  readonly end_reasons: Readonly<Record<string, number>>;
}

const periods = [
  ["", "5 hours"],
  ["now-1h", "hour"],
  ["now-24h", "24 hours"],
  ["now-7d", "7 days"],
  ["now-30d", "30 days"],
] as const;

const inMs = (value: number): string => `${count(Math.round(value))} ms`;

export function DeploymentSeries({ id }: { id: string }): View {
  const api = useApi();
  const [from, setFrom] = useFilter("period");
  const query = new URLSearchParams({ steps: "60", ...(from === "" ? {} : { from }) });
  const series = useLoaded(
    () => api.call<Series>("GET", `/v1/deployments/${encodeURIComponent(id)}/series?${query}`),
    [api, id, from],
    30_000,
  );
  return html`<div class="bar"><${Choice} label="The last" value=${from} options=${periods} onChoice=${setFrom} /></div>
    ${shown(series, ({ steps, end_reasons: reasons, step_seconds: stepSeconds }) => {
      if (Object.keys(reasons).length === 0)
        return html`<p class="quiet">No request has ended in this time; one stands here within seconds of its end.</p>`;
      const at = (unixSeconds: number) => new Date(unixSeconds * 1000).toISOString().slice(5, 16).replace("T", " ");
      const ends = { first: at(steps[0]?.from ?? 0), last: `${at((steps.at(-1)?.from ?? 0) + stepSeconds)} UTC` };
      const asked = (one: Series["steps"][number]) => `${count(one.requests)} requests, ${count(one.errors)} failed`;
      return html`<p>Requests</p>
        <${Bars} title=${`Requests from ${ends.first} to ${ends.last}`}
          bars=${steps.map((one) => ({ name: at(one.from), value: one.requests, text: asked(one) }))} />
        <${Lines} title="Time to the first byte" ...${ends} show=${inMs} lines=${quantiles(steps.map((one) => one.first_byte_ms))} />
        <${Lines} title="Time of a whole request" ...${ends} show=${inMs} lines=${quantiles(steps.map((one) => one.total_ms))} />
        <${Lines} title="Waited for a place (95 of 100 waited less)" ...${ends} show=${inMs}
          lines=${[{ name: "p95", values: steps.map((one) => one.queue_ms_p95) }]} />
        <h3>Why requests ended</h3>
        <div class="wide"><table><thead><tr><th scope="col">Outcome</th><th scope="col" class="n">Requests</th><th scope="col">What it means</th></tr></thead>
          <tbody>${Object.entries(reasons).map(([reason, requests]) => {
            const { is, isFailure, means } = endingOf(reason);
            return html`<tr><td>${isFailure ? "✕" : "●"} ${is} <code>${reason}</code></td><td class="n">${count(requests)}</td><td>${means}</td></tr>`;
          })}</tbody></table></div>`;
    })}`;
}

const quantiles = (pairs: readonly (Quantiles | null)[]) => [
  { name: "median", values: pairs.map((one) => one?.p50 ?? null) },
  { name: "p95", values: pairs.map((one) => one?.p95 ?? null) },
];
