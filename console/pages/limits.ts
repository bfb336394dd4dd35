import { useApi } from "../api.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act } from "../parts/act.ts";
import { Ago } from "../parts/ago.ts";
import { Field, Form } from "../parts/form.ts";

interface Rate {
  readonly rate_limit: number;
  readonly tpm_rate_limit: number;
}

interface Wish {
  readonly id: string;
  readonly created_at: number;
  readonly requested_max: Readonly<Record<string, number>>;
  readonly reason: string | null;
}

interface Pool {
  readonly max_limits: Readonly<Record<string, number>>;
  readonly pending_request: Wish | null;
  readonly last_rejection: (Wish & { readonly resolution_reason: string | null }) | null;
}

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

  const askRate = async ({ requests, tokens = "", reason }: Readonly<Record<string, string>>) => {
    const body = { rate_limit: Number(requests), tpm_rate_limit: tokens === "" ? null : Number(tokens), reason };
    await api.call("POST", "/v1/me/rate_limit/request", body);
  };
  const askPool = async ({ gpu = "", number, reason }: Readonly<Record<string, string>>) => {
    await api.call("POST", "/v1/me/gpu_pool/request", { reason, requested_max: { [gpu]: Number(number) } });
    await limits.reload();
  };
  return shown(
    limits,
    ({ rate, pool, types }) => html`
    <h2>Requests</h2>
    <dl><dt>At once, per model</dt><dd>${count(rate.rate_limit)}</dd>
      <dt>Tokens per minute, per model</dt><dd>${count(rate.tpm_rate_limit)}</dd></dl>
    <${Form} act="Ask for more" done="Asked. The operator decides." onSend=${askRate}>
      <${Field} label="Requests at once" name="requests" type="number" min="1" max="1000000" required />
      <${Field} label="Tokens per minute" name="tokens" type="number" min="1" placeholder="as it is" />
      <${Field} label="What for" name="reason" maxlength="1000" required />
    <//>
    <h2>GPUs</h2>
    <dl>${types.map((type) => html`<dt>${type}</dt><dd>${count(pool.max_limits[type] ?? 0)}</dd>`)}</dl>
    ${
      pool.pending_request &&
      html`<p>◐ Asked for ${wanted(pool.pending_request)} <${Ago} at=${pool.pending_request.created_at} />: ${pool.pending_request.reason}${" "}
        <${Act} label="Withdraw" command=${`stoker pool withdraw ${pool.pending_request.id}`} onAct=${async () => {
          await api.call("DELETE", `/v1/me/gpu_pool/request/${encodeURIComponent(pool.pending_request?.id ?? "")}`);
          await limits.reload();
        }} /></p>`
    }
    ${
      pool.last_rejection &&
      html`<p>✕ The operator turned down ${wanted(pool.last_rejection)}: ${pool.last_rejection.resolution_reason ?? "without a note"}</p>`
    }
    <${Form} act="Ask for GPUs" onSend=${askPool}>
      <label>Type<select name="gpu">${types.map((type) => html`<option>${type}</option>`)}</select></label>
      <${Field} label="How many" name="number" type="number" min="0" max="1000000" required />
      <${Field} label="What for" name="reason" maxlength="1000" required />
    <//>`,
  );
}

const wanted = ({ requested_max: max }: Wish): string =>
  Object.entries(max)
    .map(([type, number]) => `${number} × ${type}`)
    .join(", ");
