import type { AgentCatalog, AgentInstance } from "../agent-instance.ts";
import { useApi } from "../api.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Ago, Choice, Field, type Fields, Form, Status } from "../parts/controls.ts";
import { type Column, Table } from "../parts/table.ts";
import { go, useFilter } from "../place.ts";

const states = [
  ["", "not deleted"],
  ["inactive", "failed and deleted"],
] as const;

export function Agents(): View {
  const api = useApi();
  const [state, setState] = useFilter("state");
  const query = new URLSearchParams({ state: state || "active" });
  const agents = useGet<readonly AgentInstance[]>(`/v1/agent?${query}`, 5000);
  const catalog = useGet<AgentCatalog>("/v1/agent/catalog");
  const create = async ({ name, what = "" }: Fields) => {
    const [type, plan] = JSON.parse(what) as [string, string];
    const body = { name, agent_type_id: type, plan_id: plan };
    const created = await api.call<{ readonly instance_id: string }>("POST", "/v1/agent", body);
    go(`/agents/${encodeURIComponent(created.instance_id)}`);
  };
  return html`<div class="bar"><${Choice} label="Show" value=${state} options=${states} onChoice=${setState} /></div>
    ${shown(
      agents,
      (rows) => html`<${Table} name="agents" rows=${rows} columns=${columns} keyOf=${(one: AgentInstance) => one.id}
        empty="No agents. An agent instance is a long-running container with a backed-up volume." />`,
    )}
    <h2>Create an agent</h2>
    ${shown(catalog, (types) => {
      const choices = Object.entries(types).flatMap(([type, { pretty_name: name, plans }]) =>
        plans.map((plan) => ({
          value: JSON.stringify([type, plan.id]),
          text: `${name}, ${plan.id}: ${plan.vcpu} cores, ${plan.ram_gb} GB, ${usd(plan.price_per_hour)} per hour`,
        })),
      );
      return choices.length === 0
        ? html`<p>No agent types are available. The operator configures them in the catalogue.</p>`
        : html`<${Form} act="Create" onSend=${create}>
          <${Field} label="Agent name" name="name" maxlength="64" required />
          <label>Type<select name="what">${choices.map((one) => html`<option value=${one.value}>${one.text}</option>`)}</select></label>
        <//>`;
    })}`;
}

const columns: readonly Column<AgentInstance>[] = [
  {
    name: "Agent",
    value: (one) => one.name,
    show: (one) => html`<a href=${`/console/agents/${encodeURIComponent(one.id)}`}>${one.name}</a>`,
  },
  {
    name: "Status",
    value: (one) => one.state,
    show: (one) =>
      html`<${Status} of=${one.state} />${one.operation && html`<br /><small>${one.operation} in progress</small>`}`,
  },
  { name: "Type", value: (one) => `${one.agent_type} ${one.version}` },
  { name: "Per hour", value: (one) => one.price_per_hour, show: (one) => usd(one.price_per_hour) },
  { name: "Last backup", value: (one) => one.last_backup_ts, show: (one) => html`<${Ago} at=${one.last_backup_ts} />` },
  { name: "Reason", value: (one) => one.fail_reason ?? "" },
];
