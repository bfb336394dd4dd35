// One agent instance, what can be done with it, and its backups.
import type { AgentCatalog, AgentInstance } from "../agent-instance.ts";
import { useApi } from "../api.ts";
import { usd } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act } from "../parts/act.ts";
import { Ago } from "../parts/ago.ts";
import { Status } from "../parts/status.ts";
import { type Column, Table } from "../parts/table.ts";

interface Backup {
  readonly snapshot_name: string;
  readonly size_in_gb: number;
  readonly state: string;
  readonly created_at_unix: number;
  readonly fail_reason: string | null;
}

export function AgentPage({ id }: { id: string }): View {
  const api = useApi();
  const path = `/v1/agent/${encodeURIComponent(id)}`;
  const agent = useLoaded(() => api.call<AgentInstance>("GET", path), [api, id], 3000);
  const catalog = useLoaded(() => api.call<AgentCatalog>("GET", "/v1/agent/catalog"), [api]);
  const backups = useLoaded(() => api.call<readonly Backup[]>("GET", `${path}/backups`), [api, id], 5000);
  const then = async (act: Promise<unknown>) => {
    await act;
    await Promise.all([agent.reload(), backups.reload()]);
  };
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
      <p class="large"><${Status} of=${one.state} /> <span class="quiet">${one.operation === null ? "" : `${one.operation} runs`}</span></p>
      ${one.fail_reason && html`<section aria-label="What went wrong"><h2>What went wrong</h2><pre class="log">${one.fail_reason}</pre></section>`}
      ${
        one.state !== "deleted" &&
        html`<p>
          ${type?.has_dashboard && one.state === "running" && html`<${Act} label="Open its dashboard" command=${`stoker agent open ${id}`} onAct=${open} /> `}
          ${one.state === "stopped" ? verb("Start", "start") : verb("Stop", "stop", "Stop it? Its container ends, and the cost with it; its volume stays.")}
          ${isOld && verb(`Update to ${type.version}`, "update", "Update it? It restarts with the catalogue's version.")}
          <${Act} label="Delete" command=${`stoker agent delete ${id}`} sure=${`Delete ${one.name} for good, with its volume and all backups?`}
            onAct=${() => then(api.call("DELETE", path))} /></p>`
      }
      <dl>
        <dt>Id</dt><dd><code>${one.id}</code></dd>
        <dt>Type</dt><dd>${type?.pretty_name ?? one.agent_type} ${one.version}, plan ${one.plan_id}</dd>
        <dt>Price</dt><dd>${usd(one.price_per_hour)} per hour while it runs</dd>
        <dt>Made</dt><dd><${Ago} at=${one.start_ts} /></dd>
        <dt>Last backup</dt><dd><${Ago} at=${one.last_backup_ts} /></dd>
      </dl>
      <h2>Backups</h2>
      ${one.state !== "deleted" && html`<p><${Act} label="Back up now" command=${`stoker backup create ${id}`} onAct=${() => then(api.call("POST", `${path}/backup`))} /></p>`}
      ${shown(
        backups,
        (rows) => html`<${Table} name="backups" rows=${rows} keyOf=${(backup: Backup) => backup.snapshot_name}
          columns=${columnsOf(id, (act) => then(api.call(act.method, `${path}/backups/${encodeURIComponent(act.of)}${act.verb}`)))}
          empty="No backup yet: make one now, or wait for the schedule." />`,
      )}`;
  });
}

interface BackupAct {
  readonly method: "POST" | "DELETE";
  readonly of: string;
  readonly verb: string;
}

function columnsOf(id: string, act: (act: BackupAct) => Promise<void>): readonly Column<Backup>[] {
  return [
    { name: "Backup", value: (one) => one.snapshot_name, show: (one) => html`<code>${one.snapshot_name}</code>` },
    { name: "Made", value: (one) => one.created_at_unix, show: (one) => html`<${Ago} at=${one.created_at_unix} />` },
    { name: "GB", value: (one) => one.size_in_gb, show: (one) => one.size_in_gb.toFixed(3) },
    { name: "State", value: (one) => one.state, show: (one) => html`<${Status} of=${one.state} />` },
    { name: "Why", value: (one) => one.fail_reason ?? "" },
    {
      name: "",
      value: () => null,
      show: ({ snapshot_name: name, state }) =>
        html`${
          state === "ready" &&
          html`<${Act} label="Restore" command=${`stoker backup restore ${id} ${name}`}
            sure=${`Put the volume back to ${name}? What was written since is lost.`}
            onAct=${() => act({ method: "POST", of: name, verb: "/restore" })} />
          <${Act} label="Verify" command=${`stoker backup verify ${id} ${name}`}
            onAct=${() => act({ method: "POST", of: name, verb: "/verify" })} /> `
        }${
          state !== "creating" &&
          html`<${Act} label="Delete" command=${`stoker backup delete ${id} ${name}`} sure=${`Delete ${name} for good?`}
          onAct=${() => act({ method: "DELETE", of: name, verb: "" })} />`
        }`,
    },
  ];
}
