// All hosts and GPUs, issues first.
import { capacityOf, type Gpu, healthOf, issuesOf, type Node } from "../fleet.ts";
import { bytes } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Choice, Status } from "../parts/controls.ts";
import { GpuTile } from "../parts/gpu-tile.ts";
import { type Column, Table } from "../parts/table.ts";
import { useFilter } from "../place.ts";

export function Fleet(): View {
  const fleet = useGet<{ readonly nodes: readonly Node[] }>("/v1/admin/nodes", 3000);
  return shown(
    fleet,
    ({ nodes }) => html`<${Issues} nodes=${nodes} />
    <h2>Free GPUs</h2>
    ${capacityOf(nodes).length === 0 && html`<p class="quiet">No GPUs.</p>`}
    <dl>${capacityOf(nodes).map(({ type, free, all }) => html`<dt>${type}</dt><dd>${free} of ${all}</dd>`)}</dl>
    <${Grid} nodes=${nodes} />
    <h2>Hosts</h2>
    <${Table} name="hosts" rows=${nodes} columns=${columns} keyOf=${(node: Node) => node.node_id}
      empty=${html`No hosts. On this server: <code>stoker node token create</code>; on the host: <code>stoker node join TOKEN --control HOST:PORT</code>.`} />`,
  );
}

function Issues({ nodes }: { nodes: readonly Node[] }): View {
  const affected = nodes.map((node) => ({ node, issues: issuesOf(node) })).filter(({ issues }) => issues.length > 0);
  if (affected.length === 0) return html`<p>● All hosts healthy.</p>`;
  return html`<section class="banner" aria-label="Issues"><h2>Issues</h2><ul>${affected.map(
    ({ node, issues }) =>
      html`<li><a href=${`/console/nodes/${node.node_id}`}>${node.name}</a>: ${issues.join("; ")}</li>`,
  )}</ul></section>`;
}

const filters: Readonly<Record<string, (gpu: Gpu) => boolean>> = {
  "": () => true,
  free: (gpu) => !gpu.is_claimed && !healthOf(gpu).isFaulty,
  used: (gpu) => gpu.is_claimed,
  sick: (gpu) => healthOf(gpu).isFaulty,
};

const states = [
  ["", "all"],
  ["free", "free"],
  ["used", "in use"],
  ["sick", "faulty or cordoned"],
] as const;
const withAll = (values: readonly string[]) => [["", "all"], ...values.map((value) => [value, value])];

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
      <${Choice} label="Type" value=${type} options=${withAll(capacityOf(nodes).map((one) => one.type))} onChoice=${setType} />
      ${
        (pools.length > 0 || pool !== "") &&
        html`<${Choice} label="Pool" value=${pool} options=${withAll(pools)} onChoice=${setPool} />`
      }
      <${Choice} label="Status" value=${state} options=${states} onChoice=${setState} />
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
  { name: "Status", value: (node) => node.state, show: (node) => html`<${Status} of=${node.state} />` },
  { name: "Issues", value: (node) => node.condition },
  { name: "GPUs", value: (node) => node.gpus.length },
  { name: "Instances", value: (node) => node.instances.length },
  { name: "Requests", value: (node) => node.instances.reduce((sum, one) => sum + one.in_flight, 0) },
  {
    name: "Disk free",
    value: (node) => node.load?.disk_free_bytes ?? 0,
    show: (node) => (node.load ? bytes(node.load.disk_free_bytes) : "–"),
  },
  { name: "Agent", value: (node) => node.agent_version },
];
