import { useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Act, Ago, Code, Status } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";
import { verifySnippets } from "../verify-snippets.ts";

type Delivery = Responses["GET /v1/webhooks/deliveries"]["deliveries"][number];

type Secret = Responses["GET /v1/webhooks/secret"];

export function Webhooks(): View {
  const api = useApi();
  const [secret, setSecret] = useState<Secret | undefined>(undefined);
  const log = useGet<{ readonly deliveries: readonly Delivery[] }>("/v1/webhooks/deliveries?limit=100", 10_000);
  const columns: readonly Column<Delivery>[] = [
    { name: "Created", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
    { name: "URL", value: (one) => one.url },
    { name: "Status", value: (one) => one.state, show: (one) => html`<${Status} of=${one.state} />` },
    { name: "Response", value: responseText },
    { name: "Attempts", value: (one) => one.attempts },
    {
      name: "Next",
      value: (one) => one.next_attempt_at,
      show: (one) => (one.next_attempt_at === null ? "–" : html`<${Ago} at=${one.next_attempt_at} />`),
    },
    {
      name: "Request",
      value: (one) => one.event ?? one.request_id,
      show: (one) => html`<code>${one.event ?? one.request_id}</code>`,
    },
    actions(
      (one) =>
        one.state !== "pending" &&
        html`<${Act} label="Replay" command=${`stoker webhook replay ${one.id}`} 
          onAct=${() => log.after(api.call("POST", `/v1/webhooks/deliveries/${encodeURIComponent(one.id)}/replay`))} />`,
    ),
  ];
  return html`${shown(
    log,
    ({
      deliveries: rows,
    }) => html`<${Table} name="deliveries" rows=${rows} columns=${columns} keyOf=${(one: Delivery) => one.id}
      empty="No deliveries in the last 7 days. Requests with a webhook field send their results to that URL." />`,
  )}
    <h2>Signing secret</h2>
    <p><${Act} label="Show" onAct=${async () => setSecret(await api.call<Secret>("GET", "/v1/webhooks/secret"))} />${" "}
      <${Act} label="Rotate" command="stoker webhook secret rotate" sure="Create a new secret? The old one stays valid for 24 hours."
        onAct=${async () => setSecret(await api.call<Secret>("POST", "/v1/webhooks/secret/rotate"))} /></p>
    ${secret && html`<${Code} text=${secret.secret} />`}
    ${secret?.previous_secret_expires_at && html`<p class="quiet">The old secret expires <${Ago} at=${secret.previous_secret_expires_at} />.</p>`}
    <h2>Verify signatures</h2>
    <p>Reject deliveries with an invalid signature. Test your receiver with <code class="command">stoker webhook test URL</code>, which sends a request from your machine.</p>
    ${Object.entries(verifySnippets).map(([language, text]) => html`<h3>${language}</h3><${Code} text=${text} />`)}`;
}

function responseText({ last_status: status, last_outcome: outcome }: Delivery): string {
  if (status === null) return outcome ?? "–";
  return status >= 300 && status < 400 ? `${status}: redirects are not followed` : `${status} ${outcome ?? ""}`;
}
