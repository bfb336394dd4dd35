// Page of a host: actions, facts, GPUs and instances.
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { type Instance, issuesOf, type Node } from "../fleet.ts";
import { bytes, count, percent } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Act, Field, type Fields, Form, Status } from "../parts/controls.ts";
import { GpuTile } from "../parts/gpu-tile.ts";
import { type Column, Table } from "../parts/table.ts";

type Drain = Responses["GET /v1/admin/nodes/{id}/drain"];

export function NodePage({ id }: { id: string }): View {
  const api = useApi();
  const path = `/v1/admin/nodes/${encodeURIComponent(id)}`;
  const node = useGet<Node>(path, 3000);
  const drain = useGet<Drain>(`${path}/drain`, 3000);
  const then = (act: Promise<unknown>) => Promise.all([node.after(act), drain.after(act)]);
  return shown(
    node,
    (one) => html`<h2>${one.name}</h2>
    <p class="large"><${Status} of=${one.state} /> <span class="quiet">${one.condition}</span></p>
    ${issuesOf(one).length > 0 && html`<ul class="banner">${issuesOf(one).map((issue) => html`<li>${issue}</li>`)}</ul>`}
    ${
      one.state === "draining" &&
      drain.value &&
      html`<p>◐ Draining: ${drain.value.total - drain.value.left} of ${drain.value.total} instances moved${drain.value.fixed > 0 ? `; ${drain.value.fixed} cannot move` : ""}.
        <meter min="0" max=${drain.value.total || 1} value=${drain.value.total - drain.value.left}></meter></p>`
    }
    <p><${Act} label="Cordon" command=${`stoker node cordon ${one.name}`} onAct=${() => then(api.call("POST", `${path}/cordon`, {}))} /></p>
    <p><${Act} label="Uncordon" command=${`stoker node uncordon ${one.name}`} onAct=${() => then(api.call("POST", `${path}/uncordon`, {}))} /></p>
    <${Form} act="Drain" onSend=${({ deadline = "" }: Fields) =>
      then(api.call("POST", `${path}/drain`, deadline === "" ? {} : { deadline_seconds: Number(deadline) }))}>
      <${Field} label="Drain deadline (seconds)" name="deadline" type="number" min="0" placeholder="default"
        hint=${html`Instances start on other hosts before they stop here. <code class="command">stoker node drain ${one.name}</code>`} />
    <//>
    <dl>
      <dt>Id</dt><dd><code>${one.node_id}</code></dd>
      <dt>Last seen</dt><dd>${Math.round(one.silent_seconds)} s ago</dd>
      <dt>Machine</dt><dd>${one.cpu_model}, ${one.cpu_cores} cores, ${bytes(one.memory_bytes)}, ${one.os}</dd>
      <dt>Versions</dt><dd>agent ${one.agent_version}, driver ${one.nvidia_driver_version || "–"}, CUDA ${one.cuda_version || "–"}, Docker ${one.docker_version || "–"}</dd>
      <dt>Clock</dt><dd>${one.clock_skew_seconds === null ? "–" : `${one.clock_skew_seconds.toFixed(3)} s off`}</dd>
      <dt>Unsent usage</dt><dd>${one.usage_spool === null ? "–" : `${count(one.usage_spool.records)} records, oldest ${Math.round(one.usage_spool.oldest_age_seconds)} s old`}</dd>
      <dt>Load</dt><dd>${one.load === null ? "–" : `${percent(one.load.cpu_ratio)} of CPU, ${bytes(one.load.disk_free_bytes)} of ${bytes(one.load.disk_total_bytes)} disk free`}</dd>
    </dl>
    <h2>GPUs</h2>
    ${one.gpus.length === 0 && html`<p class="quiet">No GPUs.</p>`}
    <div class="tiles">${one.gpus.map((gpu) => html`<${GpuTile} key=${gpu.uuid} gpu=${gpu} />`)}</div>
    <h2>Instances</h2>
    <${Table} name="instances" rows=${one.instances} columns=${columns} keyOf=${(instance: Instance) => instance.instance_id}
      empty="No instances." />`,
  );
}

const columns: readonly Column<Instance>[] = [
  { name: "Instance", value: (one) => one.instance_id, show: (one) => html`<code>${one.instance_id}</code>` },
  { name: "Deployment", value: (one) => one.deploy_id, show: (one) => html`<code>${one.deploy_id}</code>` },
  { name: "Status", value: (one) => one.phase, show: (one) => html`<${Status} of=${one.phase} />` },
  { name: "Requests", value: (one) => one.in_flight },
  { name: "Waiting", value: (one) => one.waiting },
  { name: "Tokens/s", value: (one) => Math.round(one.tokens_per_second) },
  { name: "Restarts", value: (one) => one.restarts },
];
