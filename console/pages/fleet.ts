// Every GPU of every host; what needs somebody stands on top.
import { useApi } from "../api.ts";
import { attentionOf, capacityOf, type Gpu, healthOf, type Node } from "../fleet.ts";
import { bytes } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { GpuTile } from "../parts/gpu-tile.ts";
import { Status } from "../parts/status.ts";
import { type Column, Table } from "../parts/table.ts";
import { useFilter } from "../place.ts";

export function Fleet(): View {
  const api = useApi();
  const fleet = useLoaded(
    async () => (await api.call<{ readonly nodes: readonly Node[] }>("GET", "/v1/admin/nodes")).nodes,
    [api],
    3000,
  );
  return shown(
    fleet,
    (nodes) => html`<${Attention} nodes=${nodes} />
    <h2>Free GPUs</h2>
    ${capacityOf(nodes).length === 0 && html`<p class="quiet">No host has a GPU.</p>`}
    <dl>${capacityOf(nodes).map(({ type, free, all }) => html`<dt>${type}</dt><dd>${free} of ${all}</dd>`)}</dl>
    <${Grid} nodes=${nodes} />
    <h2>Hosts</h2>
    <${Table} name="hosts" rows=${nodes} columns=${columns} keyOf=${(node: Node) => node.node_id}
      empty=${html`No host has joined. On this server: <code>stoker node token create</code>; on the host: <code>stoker node join TOKEN --control HOST:PORT</code>.`} />`,
  );
}

function Attention({ nodes }: { nodes: readonly Node[] }): View {
  const sick = nodes.map((node) => ({ node, reasons: attentionOf(node) })).filter(({ reasons }) => reasons.length > 0);
  if (sick.length === 0) return html`<p>● No host needs you.</p>`;
  return html`<section class="banner" aria-label="Hosts that need you"><h2>Hosts that need you</h2><ul>${sick.map(
    ({ node, reasons }) =>
      html`<li><a href=${`/console/nodes/${node.node_id}`}>${node.name}</a>: ${reasons.join("; ")}</li>`,
  )}</ul></section>`;
}

const filters: Readonly<Record<string, (gpu: Gpu) => boolean>> = {
  "": () => true,
  free: (gpu) => !gpu.is_claimed && !healthOf(gpu).isSick,
  used: (gpu) => gpu.is_claimed,
  sick: (gpu) => healthOf(gpu).isSick,
};

function Grid({ nodes }: { nodes: readonly Node[] }): View {
  const [type, setType] = useFilter("type");
  const [state, setState] = useFilter("gpu");
  const [pool, setPool] = useFilter("pool");
  const pools = [...new Set(nodes.map((node) => node.pool))].filter((one) => one !== "").sort();
  const all = nodes.flatMap((node) =>
    node.gpus.map((gpu) => ({ gpu, pool: node.pool, host: { id: node.node_id, name: node.name } })),
  );
  if (all.length === 0) return null;
  const has = filters[state] ?? (() => true);
  const seen = all.filter(
    (one) => (type === "" || one.gpu.type === type) && (pool === "" || one.pool === pool) && has(one.gpu),
  );
  return html`<h2>GPUs</h2>
    <div class="bar">
      <label>Type <select value=${type} onChange=${(event: { currentTarget: HTMLSelectElement }) => setType(event.currentTarget.value)}>
        <option value="">all</option>${capacityOf(nodes).map((one) => html`<option>${one.type}</option>`)}</select></label>
      ${
        (pools.length > 0 || pool !== "") &&
        html`<label>Pool <select value=${pool} onChange=${(event: { currentTarget: HTMLSelectElement }) => setPool(event.currentTarget.value)}>
        <option value="">all</option>${pools.map((one) => html`<option>${one}</option>`)}</select></label>`
      }
      <label>State <select value=${state} onChange=${(event: { currentTarget: HTMLSelectElement }) => setState(event.currentTarget.value)}>
        <option value="">all</option><option value="free">free</option><option value="used">in use</option><option value="sick">at fault or cordoned</option>
      </select></label>
      <span class="quiet">${seen.length} of ${all.length}</span>
    </div>
    <div class="tiles">${seen.map(({ gpu, host }) => html`<${GpuTile} key=${gpu.uuid} gpu=${gpu} host=${host} />`)}</div>`;
}

const columns: readonly Column<Node>[] = [
  {
    name: "Host",
    value: (node) => node.name,
    show: (node) => html`<a href=${`/console/nodes/${node.node_id}`}>${node.name}</a>`,
  },
  { name: "State", value: (node) => node.state, show: (node) => html`<${Status} of=${node.state} />` },
  { name: "Speaks against it", value: (node) => node.condition },
  { name: "GPUs", value: (node) => node.gpus.length },
  { name: "Instances", value: (node) => node.instances.length },
  { name: "In flight", value: (node) => node.instances.reduce((sum, one) => sum + one.in_flight, 0) },
  {
    name: "Disk free",
    value: (node) => node.load?.disk_free_bytes ?? 0,
    show: (node) => (node.load ? bytes(node.load.disk_free_bytes) : "–"),
  },
  { name: "Agent", value: (node) => node.agent_version },
];
