import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act, Ago, Field, type Fields, Form } from "../parts/controls.ts";

type Rate = Responses["GET /v1/me/rate_limit"];

type LimitRequest = NonNullable<Pool["pending_request"]>;

type Pool = Responses["GET /v1/me/gpu_pool"];

export function Limits(): View {
  const api = useApi();
  const limits = useLoaded(async () => {
    const [rate, pool, types] = await Promise.all([
      api.call<Rate>("GET", "/v1/me/rate_limit"),
      api.call<Pool>("GET", "/v1/me/gpu_pool"),
      api.call<{ readonly gpu_types: readonly string[] }>("GET", "/v1/gpu_pool/gpu_types"),
    ]);
    return { rate, pool, types: types.gpu_types };
  }, [api]);

  const requestRate = ({ requests, tokens = "", reason }: Fields) => {
    const body = { rate_limit: Number(requests), tpm_rate_limit: tokens === "" ? null : Number(tokens), reason };
    return api.call("POST", "/v1/me/rate_limit/request", body);
  };
  const requestGpus = ({ gpu = "", number, reason }: Fields) =>
    limits.after(api.call("POST", "/v1/me/gpu_pool/request", { reason, requested_max: { [gpu]: Number(number) } }));
  return shown(
    limits,
    ({ rate, pool, types }) => html`
    <h2>Rate limits</h2>
    <dl><dt>Concurrent requests per model</dt><dd>${count(rate.rate_limit)}</dd>
      <dt>Tokens per minute per model</dt><dd>${count(rate.tpm_rate_limit)}</dd></dl>
    <${Form} act="Request increase" done="Requested. The operator decides." onSend=${requestRate}>
      <${Field} label="Concurrent requests" name="requests" type="number" min="1" max="1000000" required />
      <${Field} label="Tokens per minute" name="tokens" type="number" min="1" placeholder="unchanged" />
      <${Field} label="Reason" name="reason" maxlength="1000" required />
    <//>
    <h2>GPUs</h2>
    <dl>${types.map((type) => html`<dt>${type}</dt><dd>${count(pool.max_limits[type] ?? 0)}</dd>`)}</dl>
    ${
      pool.pending_request &&
      html`<p>◐ Requested ${gpusText(pool.pending_request)} <${Ago} at=${pool.pending_request.created_at} />: ${pool.pending_request.reason}${" "}
        <${Act} label="Withdraw" command=${`stoker pool withdraw ${pool.pending_request.id}`} 
          onAct=${() => limits.after(api.call("DELETE", `/v1/me/gpu_pool/request/${encodeURIComponent(pool.pending_request?.id ?? "")}`))} /></p>`
    }
    ${
      pool.last_rejection &&
      html`<p>✕ Rejected: ${gpusText(pool.last_rejection)}: ${pool.last_rejection.resolution_reason ?? "no note"}</p>`
    }
    <${Form} act="Request GPUs" onSend=${requestGpus}>
      <label>Type<select name="gpu">${types.map((type) => html`<option>${type}</option>`)}</select></label>
      <${Field} label="Count" name="number" type="number" min="0" max="1000000" required />
      <${Field} label="Reason" name="reason" maxlength="1000" required />
    <//>`,
  );
}

const gpusText = ({ requested_max: max }: LimitRequest): string =>
  Object.entries(max)
    .map(([type, number]) => `${number} × ${type}`)
    .join(", ");
