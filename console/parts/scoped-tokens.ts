import { useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { inUtc, usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { Code, Field, type Fields, Form } from "./controls.ts";

type Scope = Responses["GET /v1/scoped-jwt"];

/** Creates and inspects scoped tokens. */
export function ScopedTokens({ keyNames }: { keyNames: readonly string[] }): View {
  const api = useApi();
  const [token, setToken] = useState<string | undefined>(undefined);
  const [scope, setScope] = useState<Scope | undefined>(undefined);

  const sign = async ({ key, models = "", hours, limit = "" }: Fields) => {
    const named = models.split(/[\s,]+/).filter((one) => one !== "");
    const answer = await api.call<{ readonly token: string }>("POST", "/v1/scoped-jwt", {
      api_key_name: key,
      expires_delta: Math.round(Number(hours) * 3600),
      ...(named.length > 0 ? { models: named } : {}),
      ...(limit === "" ? {} : { spending_limit: Number(limit) }),
    });
    setToken(answer.token);
  };
  const inspect = async ({ jwtoken = "" }: Fields) =>
    setScope(await api.call<Scope>("GET", `/v1/scoped-jwt?${new URLSearchParams({ jwtoken: jwtoken.trim() })}`));

  return html`<h2>Scoped tokens</h2>
    <p class="quiet">A token for selected models, with a lifetime and a spending limit. Revoking its key revokes the token.</p>
    <${Form} act="Create token" onSend=${sign}>
      <label>Key<select name="key">${keyNames.map((name) => html`<option>${name}</option>`)}</select></label>
      <${Field} label="Models" name="models" placeholder="all models" hint="Names, separated by spaces." />
      <${Field} label="Valid for (hours)" name="hours" type="number" min="0.01" max="8760" step="0.01" value="1" required />
      <${Field} label="Spending limit (USD)" name="limit" type="number" min="0" step="0.01" placeholder="limit of the key" />
    <//>
    ${token && html`<${Code} text=${token} />`}
    <${Form} act="Inspect token" onSend=${inspect}>
      <${Field} label="Token" name="jwtoken" autocomplete="off" placeholder="jwt:…" required />
    <//>
    ${
      scope &&
      html`<dl>
        <dt>Id</dt><dd><code>${scope.id}</code> <a href="/console/usage?by=day-token">requests</a></dd>
        <dt>Expires</dt><dd>${inUtc(scope.expires_at * 1000)}</dd>
        <dt>Models</dt><dd>${scope.models?.join(", ") || "all"}</dd>
        <dt>Spent</dt><dd>${usd(scope.spending_current)}${scope.spending_limit === undefined ? ", no limit" : ` of ${usd(scope.spending_limit)}`}</dd>
      </dl>`
    }`;
}
