import { useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { inUtc, usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act, Ago, Code, Field, type Fields, Form } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";

type Key = Responses["GET /v1/api-tokens"][number];

type KeyLimit = Responses["GET /payment/key-limits"][number];

type Row = Key & Pick<KeyLimit, "limit" | "spend">;

export function Keys(): View {
  const api = useApi();
  const [made, setMade] = useState<string | undefined>(undefined);
  const keys = useLoaded(async () => {
    const [all, limits] = await Promise.all([
      api.call<readonly Key[]>("GET", "/v1/api-tokens"),
      api.call<readonly KeyLimit[]>("GET", "/payment/key-limits"),
    ]);
    return all.map((key): Row => {
      const { limit = null, spend = 0 } = limits.find((one) => one.token_id === key.token_id) ?? {};
      return { ...key, limit, spend };
    });
  }, [api]);

  const create = async ({ name, ips = "" }: Fields) => {
    const allowed = ips.split(/[\s,]+/).filter((one) => one !== "");
    const key = await api.call<{ readonly token: string }>("POST", "/v1/api-tokens", {
      name,
      ...(allowed.length > 0 ? { allowed_ips: allowed } : {}),
    });
    setMade(key.token);
    await keys.reload();
  };
  const setLimit = ({ key, limit = "" }: Fields) => {
    const body = { token_id: key, limit: limit === "" ? null : Number(limit) };
    return keys.after(api.call("POST", "/payment/key-limits", body));
  };
  const columns: readonly Column<Row>[] = [
    { name: "Name", value: (key) => key.name },
    { name: "Key", value: (key) => key.fragment, show: (key) => html`<code>${key.fragment}</code>` },
    { name: "Created", value: (key) => key.created_at, show: (key) => html`<${Ago} at=${key.created_at} />` },
    { name: "Last used", value: (key) => key.last_used_at, show: (key) => html`<${Ago} at=${key.last_used_at} />` },
    { name: "Spent this month", value: (key) => key.spend, show: (key) => usd(key.spend) },
    { name: "Monthly limit", value: (key) => key.limit, show: (key) => (key.limit === null ? "none" : usd(key.limit)) },
    {
      name: "Allowed addresses",
      value: (key) => key.allowed_ips?.join(" ") ?? "",
      show: (key) => key.allowed_ips?.join(", ") || "anywhere",
    },
    actions(
      (key) => html`<${Act} label="Revoke" command=${`stoker token delete ${key.token_id}`}
        sure=${`Revoke “${key.name}”? Requests with it are refused within seconds. This cannot be undone.`}
        onAct=${() => keys.after(api.call("DELETE", `/v1/api-tokens/id/${encodeURIComponent(key.token_id)}`))} />`,
    ),
  ];

  return html`${
    made &&
    html`<section class="key" aria-label="The new key">
      <p><strong>The new key.</strong> It is shown only once. Copy it now.</p><${Code} text=${made} />
    </section>`
  }
    ${shown(
      keys,
      (rows) => html`<${Table} name="keys" rows=${rows} columns=${columns} keyOf=${(key: Row) => key.token_id}
          empty="No keys. Create the first one below." />
        <h2>Create a key</h2>
        <${Form} act="Create key" onSend=${create}>
          <${Field} label="Name" name="name" maxlength="128" required />
          <${Field} label="Allowed addresses" name="ips" placeholder="anywhere" hint="IP addresses or networks, such as 192.0.2.0/24." />
        <//>
        ${
          rows.length > 0 &&
          html`<h2>Monthly limit of a key</h2>
          <${Form} act="Save limit" done="Saved." onSend=${setLimit}>
            <label>Key<select name="key">${rows.map((key) => html`<option value=${key.token_id}>${key.name}</option>`)}</select></label>
            <${Field} label="USD per month" name="limit" type="number" min="0" step="0.01" placeholder="no limit"
              hint="0 blocks the key." />
          <//>
          <${ScopedTokens} keyNames=${rows.map((key) => key.name)} />`
        }`,
    )}`;
}

type Scope = Responses["GET /v1/scoped-jwt"];

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
