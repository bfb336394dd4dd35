import { useApi } from "../api.ts";
import { type Deployment, gpusInWords, instancesInWords, progressInWords } from "../deployment.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/ago.ts";
import { Status } from "../parts/status.ts";
import { type Column, Table } from "../parts/table.ts";
import { useFilter } from "../place.ts";

const ended = ["deleted", "failed", "stopped"];

export function Deployments(): View {
  const api = useApi();
  const [which, setWhich] = useFilter("state");
  const list = useLoaded(() => api.call<readonly Deployment[]>("GET", "/deploy/list"), [api], 5000);
  return html`<p><a href="/console/deployments/new">Deploy a model</a></p>
    <label>Show <select value=${which} onChange=${(event: { currentTarget: HTMLSelectElement }) => setWhich(event.currentTarget.value)}>
      <option value="">those not deleted</option><option value="live">those that run or start</option><option value="all">all</option>
    </select></label>
    ${shown(list, (all) => {
      const rows = all.filter(
        ({ status }) => which === "all" || (which === "live" ? !ended.includes(status) : status !== "deleted"),
      );
      return html`<${Table} name="deployments" rows=${rows} columns=${columns} keyOf=${(one: Deployment) => one.deploy_id}
        empty="No deployment yet. A model of your own gets GPUs of its own, billed by the minute." />`;
    })}`;
}

const columns: readonly Column<Deployment>[] = [
  {
    name: "Model",
    value: (one) => one.model_name,
    show: (one) => html`<a href=${`/console/deployments/${one.deploy_id}`}>${one.model_name}</a>`,
  },
  {
    name: "State",
    value: (one) => one.status,
    show: (one) =>
      html`<${Status} of=${one.status} />${progressInWords(one) && html`<br /><small>${progressInWords(one)}</small>`}`,
  },
  { name: "Instances", value: instancesInWords },
  { name: "GPUs", value: gpusInWords },
  {
    name: "Why",
    value: (one) => one.fail_reason || one.pending_reasons[0]?.why || one.progress?.trouble || one.update_error,
  },
  { name: "Made", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
];
