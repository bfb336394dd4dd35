// Page of a deployment: status, cost, scale, latency and log.
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { type Deployment, gpusText, instancesText, progressText } from "../deployment.ts";
import { count, usd, usdOfCents } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet, useLoaded } from "../loaded.ts";
import { Act, Ago, Field, type Fields, Form, Status } from "../parts/controls.ts";
import { DeploymentSeries } from "../parts/deployment-series.ts";

type Use = Responses["GET /deploy/{deploy_id}/stats"];

type Offer = Responses["GET /deploy/llm/gpu_availability"]["gpus"][number];

export function DeploymentPage({ id }: { id: string }): View {
  const api = useApi();
  const path = `/deploy/${encodeURIComponent(id)}`;
  const deployment = useGet<Deployment>(path, 3000);
  const money = useLoaded(
    async () => {
      const [use, offers] = await Promise.all([
        api.call<Use>("GET", `${path}/stats?from=${monthStart()}`),
        api.call<{ readonly gpus: readonly Offer[] }>("GET", "/deploy/llm/gpu_availability"),
      ]);
      return { use, offers: offers.gpus };
    },
    [api, id],
    30_000,
  );

  return shown(deployment, (one) => {
    const isStopped = one.status === "stopped" || one.status === "failed";
    const isGone = one.status === "deleted";
    return html`<h2>${one.model_name}</h2>
      <p class="large"><${Status} of=${one.status} /> <span class="quiet">${instancesText(one)}</span></p>
      ${
        progressText(one) &&
        html`<p>${progressText(one)} ${
          one.status !== "deployed" &&
          html`<meter min="0" max=${one.progress?.total_bytes || 1} value=${one.progress?.done_bytes ?? 0}></meter>`
        }</p>`
      }
      ${one.progress?.trouble && html`<p>${one.progress.trouble}</p>`}
      ${one.fail_reason && html`<section aria-label="Failure"><h2>Failure</h2><pre class="log">${one.fail_reason}</pre></section>`}
      ${one.update_error && html`<section><h2>Update rolled back</h2><pre class="log">${one.update_error}</pre></section>`}
      ${
        one.pending_reasons.length > 0 &&
        html`<h2>Pending</h2><ul>${one.pending_reasons.map(({ host, why }) => html`<li><b>${host || "All hosts"}</b>: ${why}</li>`)}</ul>`
      }
      ${
        !isGone &&
        html`<p>${
          isStopped
            ? html`<${Act} label="Start" command=${`stoker deploy start ${id}`} onAct=${() => deployment.after(api.call("POST", `${path}/start`))} />`
            : html`<${Act} label="Stop" command=${`stoker deploy stop ${id}`} onAct=${() => deployment.after(api.call("POST", `${path}/stop`))}
                sure="Stop this deployment? Running requests finish first. Its cost then stops." />`
        } <${Act} label="Delete" command=${`stoker deploy delete ${id}`} onAct=${() => deployment.after(api.call("DELETE", path))}
          sure=${`Delete ${one.model_name}? This cannot be undone. Its cost stops when its last instance stops.`} /></p>`
      }
      <dl>
        <dt>Id</dt><dd><code>${one.deploy_id}</code></dd>
        <dt>Task</dt><dd>${one.task}</dd>
        ${
          one.config &&
          html`<dt>GPUs per instance</dt><dd>${gpusText(one)}, ${one.config.max_batch_size} concurrent requests</dd>
          <dt>Weights</dt><dd>${one.config.weights.repo || "–"} ${one.config.weights.revision}</dd>`
        }
        <dt>Created</dt><dd><${Ago} at=${one.created_at} /></dd>
        <dt>Updated</dt><dd><${Ago} at=${one.updated_at} /></dd>
        <dt>Rollout</dt><dd>${one.rollout.up_to_date} up to date, ${one.rollout.outdated} outdated, ${one.rollout.booting} starting</dd>
      </dl>
      <h2>Usage and cost this month</h2>
      ${shown(
        money,
        ({ use, offers }) => html`<dl>
        <dt>Requests</dt><dd>${count(use.requests)}, ${count(use.errors)} failed</dd>
        <dt>Tokens</dt><dd>${count(use.input_tokens)} in, ${count(use.output_tokens)} out</dd>
        <dt>Billed</dt><dd>${usdOfCents(use.total_amount)}</dd>
        <dt>Current cost</dt><dd>${hourly(one, offers)}</dd>
      </dl>`,
      )}
      ${!isGone && html`<h2>Scale</h2><${Scale} one=${one} onSet=${(body: object) => deployment.after(api.call("PUT", path, body))} />`}
      ${!isGone && html`<h2>Requests and latency</h2><${DeploymentSeries} id=${id} />`}
      <h2>Log</h2><${Log} id=${id} />`;
  });
}

/** Start of the UTC month, in Unix seconds. */
function monthStart(): number {
  const now = new Date();
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth()) / 1000;
}

function hourly({ config, instances }: Deployment, offers: readonly Offer[]): string {
  const offer = config && offers.find((one) => one.gpu_config === `${config.num_gpus}x${config.gpu}`);
  return offer
    ? `${usd(offer.usd_per_hour * instances.running)} per hour (${instances.running} × ${usd(offer.usd_per_hour)})`
    : "no hourly price";
}

function Scale({ one: { settings }, onSet }: { one: Deployment; onSet: (body: object) => Promise<void> }): View {
  const send = ({ min, max, idle = "" }: Fields) =>
    onSet({
      settings: {
        min_instances: Number(min),
        max_instances: Number(max),
        inactive_shutdown: idle === "" ? null : Number(idle),
      },
    });
  return html`<${Form} act="Save scale" done="Saved." onSend=${send}>
    <${Field} label="Minimum instances" name="min" type="number" min="0" max="1000" value=${settings.min_instances} required />
    <${Field} label="Maximum instances" name="max" type="number" min="1" max="1000" value=${settings.max_instances} required />
    <${Field} label="Scale to zero after (seconds without requests)" name="idle" type="number" min="60"
      value=${settings.inactive_shutdown ?? ""} placeholder="never" hint="Requires a minimum of 0." />
  <//>`;
}

/** Newest log lines of a deployment, refreshed. */
function Log({ id }: { id: string }): View {
  const query = new URLSearchParams({ deploy_id: id, limit: "200" });
  const log = useGet<{ readonly entries: readonly (readonly string[])[] }>(`/v1/logs/query?${query}`, 3000);
  return shown(log, ({ entries }) =>
    entries.length === 0
      ? html`<p class="quiet">No log lines.</p>`
      : html`<pre class="log" tabindex="0">${entries.map((entry) => entry.at(-1)).join("\n")}</pre>`,
  );
}
