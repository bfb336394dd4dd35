import { type Deployment, gpusText, instancesText, progressText } from "../deployment.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Ago, Choice, Status } from "../parts/controls.ts";
import { type Column, Table } from "../parts/table.ts";
import { useFilter } from "../place.ts";

const states = [
  ["", "not deleted"],
  ["live", "active"],
  ["all", "all"],
] as const;
const ended = ["deleted", "failed", "stopped"];

export function Deployments(): View {
  const [which, setWhich] = useFilter("state");
  const list = useGet<readonly Deployment[]>("/deploy/list", 5000);
  return html`<p><a href="/console/deployments/new">Deploy a model</a></p>
    <${Choice} label="Show" value=${which} options=${states} onChoice=${setWhich} />
    ${shown(list, (all) => {
      const rows = all.filter(
        ({ status }) => which === "all" || (which === "live" ? !ended.includes(status) : status !== "deleted"),
      );
      return html`<${Table} name="deployments" rows=${rows} columns=${columns} keyOf=${(one: Deployment) => one.deploy_id}
        empty="No deployments. A deployment runs a model on its own GPUs, billed by the minute." />`;
    })}`;
}

const columns: readonly Column<Deployment>[] = [
  {
    name: "Model",
    value: (one) => one.model_name,
    show: (one) => html`<a href=${`/console/deployments/${one.deploy_id}`}>${one.model_name}</a>`,
  },
  {
    name: "Status",
    value: (one) => one.status,
    show: (one) =>
      html`<${Status} of=${one.status} />${progressText(one) && html`<br /><small>${progressText(one)}</small>`}`,
  },
  { name: "Instances", value: instancesText },
  { name: "GPUs", value: gpusText },
  {
    name: "Reason",
    value: (one) => one.fail_reason || one.pending_reasons[0]?.why || one.progress?.trouble || one.update_error,
  },
  { name: "Created", value: (one) => one.created_at, show: (one) => html`<${Ago} at=${one.created_at} />` },
];
