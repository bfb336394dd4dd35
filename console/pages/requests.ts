// What customers have asked for: higher limits, GPUs, funds. The note is what they read.
import { useApi } from "../api.ts";
import { count, usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/ago.ts";
import { Field, Form } from "../parts/form.ts";

interface Wish {
  readonly id: string;
  readonly uid: string;
  readonly email?: string;
  readonly display_name?: string;
  readonly reason?: string;
  readonly revision?: number;
  readonly created_at: number;
  readonly status?: string;
}

interface PoolWish extends Wish {
  readonly requested_max: Readonly<Record<string, number>>;
}

interface RateWish extends Wish {
  readonly rate_limit: number;
  readonly tpm_rate_limit: number | null;
}

interface TopupWish extends Wish {
  readonly amount_usd: number;
  readonly state: string;
}

interface Open {
  readonly wish: Wish;
  readonly what: string;
  /** Where it is decided. */
  readonly path: string;
  readonly grant: "approve" | "fulfil";
}

export function Requests(): View {
  const api = useApi();
  const open = useLoaded(
    async (): Promise<readonly Open[]> => {
      const [pool, rate, topup] = await Promise.all([
        api.call<{ readonly requests: readonly PoolWish[] }>("GET", "/v1/admin/gpu-pool-requests"),
        api.call<{ readonly requests: readonly RateWish[] }>("GET", "/v1/admin/rate-limit-requests"),
        api.call<{ readonly requests: readonly TopupWish[] }>("GET", "/v1/admin/topup-requests"),
      ]);
      const at = (kind: string, id: string) => `/v1/admin/${kind}/${encodeURIComponent(id)}`;
      return [
        ...pool.requests.map((wish) => ({
          wish,
          what: gpusOf(wish),
          path: at("gpu-pool-requests", wish.id),
          grant: "approve" as const,
        })),
        ...rate.requests.map((wish) => ({
          wish,
          what: ratesOf(wish),
          path: at("rate-limit-requests", wish.id),
          grant: "approve" as const,
        })),
        ...topup.requests.map((wish) => ({
          wish: { ...wish, status: wish.state === "requested" ? "open" : wish.state },
          what: `${usd(wish.amount_usd)} of funds, to be credited once paid`,
          path: at("topup-requests", wish.id),
          grant: "fulfil" as const,
        })),
      ].filter(({ wish }) => wish.status === "open");
    },
    [api],
    10_000,
  );

  return shown(open, (list) =>
    list.length === 0
      ? html`<p class="quiet">Nobody waits for you.</p>`
      : html`<div class="cards">${list.map((one) => html`<${Decision} key=${one.wish.id} one=${one} onDecided=${open.reload} />`)}</div>`,
  );
}

function Decision({
  one: { wish, what, path, grant },
  onDecided,
}: {
  one: Open;
  onDecided: () => Promise<void>;
}): View {
  const api = useApi();
  const decide = async ({ note, verdict }: Readonly<Record<string, string>>) => {
    const body = { note, ...(wish.revision === undefined ? {} : { revision: wish.revision }) };
    await api.call("POST", `${path}/${verdict}`, body);
    await onDecided();
  };
  return html`<section>
    <h2>${what}</h2>
    <p>${wish.display_name ?? wish.uid} ${wish.email && html`<span class="quiet">${wish.email}</span>`}, <${Ago} at=${wish.created_at} /></p>
    ${wish.reason && html`<blockquote>${wish.reason}</blockquote>`}
    <${Form} act="Decide" onSend=${decide}>
      <label>Verdict<select name="verdict"><option value=${grant}>${grant}</option><option value="reject">reject</option></select></label>
      <${Field} label="Note, which the customer sees" name="note" maxlength="1000" required />
    <//>
  </section>`;
}

const gpusOf = ({ requested_max: max }: PoolWish): string =>
  Object.entries(max)
    .map(([type, number]) => `${number} × ${type}`)
    .join(", ");

const ratesOf = ({ rate_limit: requests, tpm_rate_limit: tokens }: RateWish): string =>
  `${count(requests)} requests at once${tokens === null ? "" : `, ${count(tokens)} tokens per minute`}`;
