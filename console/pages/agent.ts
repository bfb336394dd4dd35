// Page of an agent instance and its backups.
import type { Responses } from "../../proto/gen/responses.ts";
import type { AgentCatalog, AgentInstance } from "../agent-instance.ts";
import { useApi } from "../api.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Act, Ago, Status } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";

type Backup = Responses["GET /v1/agent/{instance_id}/backups"][number];

export function AgentPage({ id }: { id: string }): View {
  const api = useApi();
  const path = `/v1/agent/${encodeURIComponent(id)}`;
  const agent = useGet<AgentInstance>(path, 3000);
  const catalog = useGet<AgentCatalog>("/v1/agent/catalog");
  const backups = useGet<readonly Backup[]>(`${path}/backups`, 5000);
  const then = (act: Promise<unknown>) => Promise.all([agent.after(act), backups.after(act)]);
  const open = async () => {
    const { dashboard_url: url } = await api.call<{ readonly dashboard_url: string }>("POST", `${path}/launch_token`);
    location.assign(url);
  };
  const verb = (label: string, name: string, sure?: string) =>
    html`<${Act} label=${label} command=${`stoker agent ${name} ${id}`} sure=${sure} onAct=${() => then(api.call("POST", `${path}/${name}`))} /> `;

  return shown(agent, (one) => {
    const type = catalog.value?.[one.agent_type];
    const isOld = type !== undefined && type.version !== one.version;
    return html`<h2>${one.name}</h2>
      <p class="large"><${Status} of=${one.state} /> <span class="quiet">${one.operation === null ? "" : `${one.operation} in progress`}</span></p>
      ${one.fail_reason && html`<section aria-label="Failure"><h2>Failure</h2><pre class="log">${one.fail_reason}</pre></section>`}
      ${
        one.state !== "deleted" &&
        html`<p>
          ${type?.has_dashboard && one.state === "running" && html`<${Act} label="Open dashboard" command=${`stoker agent open ${id}`} onAct=${open} /> `}
          ${one.state === "stopped" ? verb("Start", "start") : verb("Stop", "stop", "Stop this agent? Its cost stops; its volume is kept.")}
          ${isOld && verb(`Update to ${type.version}`, "update", "Update this agent? It restarts with the catalogue version.")}
          <${Act} label="Delete" command=${`stoker agent delete ${id}`} sure=${`Delete ${one.name}, its volume and all backups? This cannot be undone.`}
            onAct=${() => then(api.call("DELETE", path))} /></p>`
      }
      <dl>
        <dt>Id</dt><dd><code>${one.id}</code></dd>
        <dt>Type</dt><dd>${type?.pretty_name ?? one.agent_type} ${one.version}, plan ${one.plan_id}</dd>
        <dt>Price</dt><dd>${usd(one.price_per_hour)} per hour while running</dd>
        <dt>Created</dt><dd><${Ago} at=${one.start_ts} /></dd>
        <dt>Last backup</dt><dd><${Ago} at=${one.last_backup_ts} /></dd>
      </dl>
      <h2>Backups</h2>
      ${one.state !== "deleted" && html`<p><${Act} label="Create backup" command=${`stoker backup create ${id}`} onAct=${() => then(api.call("POST", `${path}/backup`))} /></p>`}
      ${shown(
        backups,
        (rows) => html`<${Table} name="backups" rows=${rows} keyOf=${(backup: Backup) => backup.snapshot_name}
          columns=${columnsOf(id, (method, name, verb) => then(api.call(method, `${path}/backups/${encodeURIComponent(name)}${verb}`)))}
          empty="No backups." />`,
      )}`;
  });
}

type BackupAct = (method: "POST" | "DELETE", name: string, verb: string) => Promise<unknown>;

function columnsOf(id: string, act: BackupAct): readonly Column<Backup>[] {
  return [
    { name: "Backup", value: (one) => one.snapshot_name, show: (one) => html`<code>${one.snapshot_name}</code>` },
    { name: "Created", value: (one) => one.created_at_unix, show: (one) => html`<${Ago} at=${one.created_at_unix} />` },
    { name: "GB", value: (one) => one.size_in_gb, show: (one) => one.size_in_gb.toFixed(3) },
    { name: "Status", value: (one) => one.state, show: (one) => html`<${Status} of=${one.state} />` },
    { name: "Reason", value: (one) => one.fail_reason ?? "" },
    actions(
      ({ snapshot_name: name, state }) =>
        html`${
          state === "ready" &&
          html`<${Act} label="Restore" command=${`stoker backup restore ${id} ${name}`}
            sure=${`Restore ${name}? Later changes to the volume are lost.`}
            onAct=${() => act("POST", name, "/restore")} />
          <${Act} label="Verify" command=${`stoker backup verify ${id} ${name}`}
            onAct=${() => act("POST", name, "/verify")} /> `
        }${
          state !== "creating" &&
          html`<${Act} label="Delete" command=${`stoker backup delete ${id} ${name}`} sure=${`Delete ${name}? This cannot be undone.`}
          onAct=${() => act("DELETE", name, "")} />`
        }`,
    ),
  ];
}
