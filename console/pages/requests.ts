// Open customer requests for limits, GPUs and funds. Customers see the note.
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { count, usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago, Field, type Fields, Form } from "../parts/controls.ts";

interface LimitRequest {
  readonly id: string;
  readonly uid: string;
  readonly email?: string;
  readonly display_name?: string;
  readonly reason?: string;
  readonly revision?: number;
  readonly created_at: number;
  readonly status?: string;
}

type PoolRequest = Responses["GET /v1/admin/gpu-pool-requests"]["requests"][number];

type RateRequest = Responses["GET /v1/admin/rate-limit-requests"]["requests"][number];

type TopupRequest = Responses["GET /v1/admin/topup-requests"]["requests"][number];

interface Open {
  readonly request: LimitRequest;
  readonly what: string;
  readonly path: string;
  readonly grant: "approve" | "fulfil";
}

export function Requests(): View {
  const api = useApi();
  const open = useLoaded(
    async (): Promise<readonly Open[]> => {
      const [pool, rate, topup] = await Promise.all([
        api.call<{ readonly requests: readonly PoolRequest[] }>("GET", "/v1/admin/gpu-pool-requests"),
        api.call<{ readonly requests: readonly RateRequest[] }>("GET", "/v1/admin/rate-limit-requests"),
        api.call<{ readonly requests: readonly TopupRequest[] }>("GET", "/v1/admin/topup-requests"),
      ]);
      const at = (kind: string, id: string) => `/v1/admin/${kind}/${encodeURIComponent(id)}`;
      return [
        ...pool.requests.map((request) => ({
          request,
          what: gpusOf(request),
          path: at("gpu-pool-requests", request.id),
          grant: "approve" as const,
        })),
        ...rate.requests.map((request) => ({
          request,
          what: ratesOf(request),
          path: at("rate-limit-requests", request.id),
          grant: "approve" as const,
        })),
        ...topup.requests.map((request) => ({
          request: { ...request, status: request.state === "requested" ? "open" : request.state },
          what: `${usd(request.amount_usd)} of funds, credited after payment`,
          path: at("topup-requests", request.id),
          grant: "fulfil" as const,
        })),
      ].filter(({ request }) => request.status === "open");
    },
    [api],
    10_000,
  );

  return shown(open, (list) =>
    list.length === 0
      ? html`<p class="quiet">No open requests.</p>`
      : html`<div class="cards">${list.map((one) => html`<${Decision} key=${one.request.id} one=${one} onDecided=${open.reload} />`)}</div>`,
  );
}

function Decision({
  one: { request, what, path, grant },
  onDecided,
}: {
  one: Open;
  onDecided: () => Promise<void>;
}): View {
  const api = useApi();
  const decide = async ({ note, decision }: Fields) => {
    const body = { note, ...(request.revision === undefined ? {} : { revision: request.revision }) };
    await api.call("POST", `${path}/${decision}`, body);
    await onDecided();
  };
  return html`<section>
    <h2>${what}</h2>
    <p>${request.display_name ?? request.uid} ${request.email && html`<span class="quiet">${request.email}</span>`}, <${Ago} at=${request.created_at} /></p>
    ${request.reason && html`<blockquote>${request.reason}</blockquote>`}
    <${Form} act="Decide" onSend=${decide}>
      <label>Decision<select name="decision"><option value=${grant}>${grant}</option><option value="reject">reject</option></select></label>
      <${Field} label="Note for the customer" name="note" maxlength="1000" required />
    <//>
  </section>`;
}

const gpusOf = ({ requested_max: max }: PoolRequest): string =>
  Object.entries(max)
    .map(([type, number]) => `${number} × ${type}`)
    .join(", ");

const ratesOf = ({ rate_limit: requests, tpm_rate_limit: tokens }: RateRequest): string =>
  `${count(requests)} concurrent requests${tokens === null ? "" : `, ${count(tokens)} tokens per minute`}`;
