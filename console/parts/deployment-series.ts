// Requests, latency and end reasons of a deployment over time.
import type { Responses } from "../../proto/gen/responses.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { useFilter } from "../place.ts";
import { endingOf } from "../request-log.ts";
import { Bars, Lines } from "./chart.ts";
import { Choice } from "./controls.ts";

interface Quantiles {
  readonly p50: number;
  readonly p95: number;
}

type Series = Responses["GET /v1/deployments/{deploy_id}/series"];

const periods = [
  ["", "5 hours"],
  ["now-1h", "hour"],
  ["now-24h", "24 hours"],
  ["now-7d", "7 days"],
  ["now-30d", "30 days"],
] as const;

const inMs = (value: number): string => `${count(Math.round(value))} ms`;

export function DeploymentSeries({ id }: { id: string }): View {
  const [from, setFrom] = useFilter("period");
  const query = new URLSearchParams({ steps: "60", ...(from === "" ? {} : { from }) });
  const series = useGet<Series>(`/v1/deployments/${encodeURIComponent(id)}/series?${query}`, 30_000);
  return html`<div class="bar"><${Choice} label="Last" value=${from} options=${periods} onChoice=${setFrom} /></div>
    ${shown(series, ({ steps, end_reasons: reasons, step_seconds: stepSeconds }) => {
      if (Object.keys(reasons).length === 0)
        return html`<p class="quiet">No requests in this period. A request appears seconds after it ends.</p>`;
      const at = (unixSeconds: number) => new Date(unixSeconds * 1000).toISOString().slice(5, 16).replace("T", " ");
      const ends = { first: at(steps[0]?.from ?? 0), last: `${at((steps.at(-1)?.from ?? 0) + stepSeconds)} UTC` };
      const text = (one: Series["steps"][number]) => `${count(one.requests)} requests, ${count(one.errors)} failed`;
      return html`<p>Requests</p>
        <${Bars} title=${`Requests from ${ends.first} to ${ends.last}`}
          bars=${steps.map((one) => ({ name: at(one.from), value: one.requests, text: text(one) }))} />
        <${Lines} title="Time to first byte" ...${ends} show=${inMs} lines=${quantiles(steps.map((one) => one.first_byte_ms))} />
        <${Lines} title="Total time" ...${ends} show=${inMs} lines=${quantiles(steps.map((one) => one.total_ms))} />
        <${Lines} title="Queue time (p95)" ...${ends} show=${inMs}
          lines=${[{ name: "p95", values: steps.map((one) => one.queue_ms_p95) }]} />
        <h3>Outcomes</h3>
        <div class="wide"><table><thead><tr><th scope="col">Outcome</th><th scope="col" class="n">Requests</th><th scope="col">Description</th></tr></thead>
          <tbody>${Object.entries(reasons).map(([reason, requests]) => {
            const { label, isFailure, means } = endingOf(reason);
            return html`<tr><td>${isFailure ? "✕" : "●"} ${label} <code>${reason}</code></td><td class="n">${count(requests)}</td><td>${means}</td></tr>`;
          })}</tbody></table></div>`;
    })}`;
}

const quantiles = (pairs: readonly (Quantiles | null)[]) => [
  { name: "median", values: pairs.map((one) => one?.p50 ?? null) },
  { name: "p95", values: pairs.map((one) => one?.p95 ?? null) },
];
