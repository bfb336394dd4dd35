import type { AgentCatalog, AgentInstance } from "../agent-instance.ts";
import { useApi } from "../api.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/ago.ts";
import { Choice } from "../parts/choice.ts";
import { Field, Form } from "../parts/form.ts";
import { Status } from "../parts/status.ts";
import { type Column, Table } from "../parts/table.ts";
import { go, useFilter } from "../place.ts";

const states = [
  ["", "those not deleted"],
  ["inactive", "failed and deleted ones"],
] as const;

export function Agents(): View {
  const api = useApi();
  const [state, setState] = useFilter("state");
  const agents = useLoaded(
    () => api.call<readonly AgentInstance[]>("GET", `/v1/agent?${new URLSearchParams({ state: state || "active" })}`),
    [api, state],
    5000,
  );
  const catalog = useLoaded(() => api.call<AgentCatalog>("GET", "/v1/agent/catalog"), [api]);
  const create = async ({ name, what = "" }: Readonly<Record<string, string>>) => {
    const [type, plan] = JSON.parse(what) as [string, string];
    const body = { name, agent_type_id: type, plan_id: plan };
    const made = await api.call<{ readonly instance_id: string }>("POST", "/v1/agent", body);
    go(`/agents/${encodeURIComponent(made.instance_id)}`);
  };
  return html`<div class="bar"><${Choice} label="Show" value=${state} options=${states} onChoice=${setState} /></div>
    ${shown(
      agents,
      (rows) => html`<${Table} name="agents" rows=${rows} columns=${columns} keyOf=${(one: AgentInstance) => one.id}
        empty="None. An agent instance is a program that goes on running, with a volume that is backed up: create one below." />`,
    )}
    <h2>Create one</h2>
    ${shown(catalog, (types) => {
      const choices = Object.entries(types).flatMap(([type, { pretty_name: name, plans }]) =>
        plans.map((plan) => ({
          value: JSON.stringify([type, plan.id]),
          text: `${name}, ${plan.id}: ${plan.vcpu} cores, ${plan.ram_gb} GB, ${usd(plan.price_per_hour)} per hour`,
        })),
      );
      return choices.length === 0
        ? html`<p>This installation offers none: its operator has put no type into the catalogue.</p>`
        : html`<${Form} act="Create it" onSend=${create}>
          <${Field} label="Name of the agent" name="name" maxlength="64" required />
          <label>What it is<select name="what">${choices.map((one) => html`<option value=${one.value}>${one.text}</option>`)}</select></label>
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
    name: "State",
    value: (one) => one.state,
    show: (one) =>
      html`<${Status} of=${one.state} />${one.operation && html`<br /><small>${one.operation} runs</small>`}`,
  },
  { name: "Type", value: (one) => `${one.agent_type} ${one.version}` },
  { name: "Per hour", value: (one) => one.price_per_hour, show: (one) => usd(one.price_per_hour) },
  { name: "Last backup", value: (one) => one.last_backup_ts, show: (one) => html`<${Ago} at=${one.last_backup_ts} />` },
  { name: "Why", value: (one) => one.fail_reason ?? "" },
];
