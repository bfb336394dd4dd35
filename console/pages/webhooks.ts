import { useState } from "preact/hooks";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act } from "../parts/act.ts";
import { Ago } from "../parts/ago.ts";
import { Code } from "../parts/copy.ts";
import { Status } from "../parts/status.ts";
import { type Column, Table } from "../parts/table.ts";
import { verifySnippets } from "../verify-snippets.ts";

interface Delivery {
  readonly id: string;
  readonly request_id: string;
  readonly url: string;
  readonly state: string;
  readonly attempts: number;
  readonly last_status: number | null;
  readonly last_outcome: string | null;
  readonly created_at: number;
  readonly next_attempt_at: number | null;
}

interface Secret {
  readonly secret: string;
  readonly previous_secret_expires_at: number | null;
}

export function Webhooks(): View {
  const api = useApi();
  const [secret, setSecret] = useState<Secret | undefined>(undefined);
  const log = useLoaded(
    async () =>
      (await api.call<{ readonly deliveries: readonly Delivery[] }>("GET", "/v1/webhooks/deliveries?limit=100"))
        .deliveries,
    [api],
    10_000,
  );
  const columns: readonly Column<Delivery>[] = [
    { name: "Called", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
    { name: "Address", value: (one) => one.url },
    { name: "State", value: (one) => one.state, show: (one) => html`<${Status} of=${one.state} />` },
    { name: "Answer", value: answerInWords },
    { name: "Attempts", value: (one) => one.attempts },
    {
      name: "Next",
      value: (one) => one.next_attempt_at,
      show: (one) => (one.next_attempt_at === null ? "–" : html`<${Ago} at=${one.next_attempt_at} />`),
    },
    { name: "Request", value: (one) => one.request_id, show: (one) => html`<code>${one.request_id}</code>` },
    {
      name: "",
      value: () => null,
      show: (one) =>
        one.state !== "pending" &&
        html`<${Act} label="Replay" command=${`stoker webhook replay ${one.id}`} onAct=${async () => {
          await api.call("POST", `/v1/webhooks/deliveries/${encodeURIComponent(one.id)}/replay`);
          await log.reload();
        }} />`,
    },
  ];
  return html`${shown(
    log,
    (rows) => html`<${Table} name="calls" rows=${rows} columns=${columns} keyOf=${(one: Delivery) => one.id}
      empty="No webhook was called in the last 7 days. A native request with a webhook is answered to that address." />`,
  )}
    <h2>Secret that signs them</h2>
    <p><${Act} label="Show" onAct=${async () => setSecret(await api.call<Secret>("GET", "/v1/webhooks/secret"))} />${" "}
      <${Act} label="Rotate" command="stoker webhook secret rotate" sure="Make a new secret? The one before signs as well for 24 hours."
        onAct=${async () => setSecret(await api.call<Secret>("POST", "/v1/webhooks/secret/rotate"))} /></p>
    ${secret && html`<${Code} text=${secret.secret} />`}
    ${secret?.previous_secret_expires_at && html`<p class="quiet">The one before ends <${Ago} at=${secret.previous_secret_expires_at} />.</p>`}
    <h2>Is a call genuine?</h2>
    <p>Your receiver should take no other. Try it with <code class="command">stoker webhook test URL</code>, which calls it from your machine.</p>
    ${Object.entries(verifySnippets).map(([language, text]) => html`<h3>${language}</h3><${Code} text=${text} />`)}`;
}

/** A redirection is no delivery: nobody follows it. */
function answerInWords({ last_status: status, last_outcome: outcome }: Delivery): string {
  if (status === null) return outcome ?? "–";
  return status >= 300 && status < 400
    ? `${status}: a redirection, which is not followed`
    : `${status} ${outcome ?? ""}`;
}
