// Page of a request: outcome, phases and cost.
import { count, inUtc, usdOfCents } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { endingOf, type LoggedRequest, phasesOf } from "../request-log.ts";

export const RequestPage = ({ id }: { id: string }): View =>
  html`<${Attempts} path=${`/v1/requests/${encodeURIComponent(id)}`} />`;

export const AnyRequestPage = ({ id }: { id: string }): View =>
  html`<${Attempts} path=${`/v1/admin/requests/${encodeURIComponent(id)}`} />`;

function Attempts({ path }: { path: string }): View {
  const found = useGet<{ readonly attempts: readonly LoggedRequest[] }>(path);
  return shown(found, ({ attempts }) =>
    attempts.map(
      (one) =>
        html`<${Attempt} key=${`${one.request_id} ${one.attempt}`} one=${one} isOnly=${attempts.length === 1} />`,
    ),
  );
}

function Attempt({ one, isOnly }: { one: LoggedRequest; isOnly: boolean }): View {
  const { label, isFailure, means } = endingOf(one.end_reason);
  const { queue, prefill, decode } = phasesOf(one);
  return html`<section>
    <h2><code>${one.request_id}</code>${!isOnly && `, attempt ${one.attempt}`}</h2>
    <p class="large">${isFailure ? "✕" : "●"} ${label}</p>
    <p>${means}${!one.counts && " A later attempt is billed instead of this one."}</p>
    <dl>
      <dt>Model</dt><dd>${one.model}</dd>
      <dt>Accepted</dt><dd>${inUtc(one.created_at * 1000)}</dd>
      <dt>Ended</dt><dd>${inUtc(one.ended_at * 1000)}</dd>
      <dt>Queue</dt><dd>${count(queue)} ms <meter min="0" max=${one.total_ms || 1} value=${queue}></meter></dd>
      <dt>Queue to first byte</dt><dd>${count(prefill)} ms <meter min="0" max=${one.total_ms || 1} value=${prefill}></meter></dd>
      <dt>First byte to end</dt><dd>${count(decode)} ms <meter min="0" max=${one.total_ms || 1} value=${decode}></meter></dd>
      <dt>Tokens in</dt><dd>${count(one.input_tokens)}${one.cached_input_tokens > 0 && `, ${count(one.cached_input_tokens)} cached`}</dd>
      <dt>Tokens out</dt><dd>${count(one.output_tokens)}${one.reasoning_tokens > 0 && `, ${count(one.reasoning_tokens)} reasoning`}</dd>
      <dt>Cost</dt><dd>${usdOfCents(one.cost)}</dd>
      <dt>Key</dt><dd><code>${one.token_id || "–"}</code></dd>
      ${
        one.account !== undefined &&
        html`<dt>Account</dt><dd><code>${one.account}</code></dd>
        <dt>Deployment</dt><dd><code>${one.deploy_id}</code></dd>
        <dt>Instance</dt><dd><code>${one.instance_id}</code></dd>`
      }
    </dl>
  </section>`;
}
