import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useGet, useLoaded } from "../loaded.ts";
import { usableModels } from "../models.ts";
import { Act, Ago, Field, type Fields, Form, Status } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";

type Adapter = Responses["GET /v1/lora/{lora_name}"];

export function Adapters(): View {
  const api = useApi();
  const adapters = useGet<readonly Adapter[]>("/v1/user/loras", 5000);
  const bases = useLoaded(() => usableModels(api), [api]);
  const add = ({ name, base, source = "", revision = "", token = "", description = "" }: Fields) => {
    const from = /^https?:\/\//.test(source) ? { type: "url", url: source } : { type: "huggingface", repo: source };
    const body = {
      lora_name: name,
      base_model: base,
      description,
      source: { ...from, ...(revision === "" ? {} : { revision }), ...(token === "" ? {} : { token }) },
    };
    return adapters.after(api.call("POST", "/v1/lora/create", body));
  };
  const columns: readonly Column<Adapter>[] = [
    {
      name: "Adapter",
      value: (one) => one.lora_name,
      show: (one) =>
        html`${one.lora_name}${one.description && html`<br /><span class="quiet">${one.description}</span>`}`,
    },
    { name: "Base model", value: (one) => one.base_model },
    {
      name: "Status",
      value: (one) => one.status,
      show: (one) =>
        html`<${Status} of=${one.status} /><br /><small>loaded by ${one.instances.running} instance${one.instances.running === 1 ? "" : "s"}</small>`,
    },
    { name: "Reason", value: (one) => one.fail_reason },
    {
      name: "Source",
      value: ({ source }) => source.repo ?? source.url ?? source.civit_url ?? "",
      show: ({ source, commit }) =>
        html`${source.repo ?? source.url ?? source.civit_url}${commit && html`<br /><code title=${commit}>${commit.slice(0, 12)}</code>`}`,
    },
    { name: "Updated", value: (one) => one.updated_at, show: (one) => html`<${Ago} at=${one.updated_at} />` },
    actions(
      (one) => html`<${Act} label="Delete" command=${`stoker lora delete ${one.lora_name}`}
        sure=${`Delete ${one.lora_name}? Requests that use it are then rejected.`}
        onAct=${() => adapters.after(api.call("DELETE", `/v1/lora/${encodeURIComponent(one.lora_name)}`))} />`,
    ),
  ];
  return html`${shown(
    adapters,
    (rows) => html`<${Table} name="adapters" rows=${rows} columns=${columns} keyOf=${(one: Adapter) => one.lora_name}
      empty="No adapters. Requests use a LoRA adapter by its name, like a model." />`,
  )}
    <h2>Add an adapter</h2>
    ${shown(bases, (models) =>
      models.length === 0
        ? html`<p>No base model is deployed. <a href="/console/deployments/new">Deploy one</a> first.</p>`
        : html`<${Form} act="Add" done="Added. The first request loads it." onSend=${add}>
          <${Field} label="Adapter name" name="name" maxlength="256" placeholder="you/adapter" required
            hint=${html`<code class="command">stoker lora add you/adapter --repo REPO --base MODEL</code>`} />
          <label>Base model<select name="base">${models.map((one) => html`<option>${one.model_name}</option>`)}</select></label>
          <${Field} label="Hub repository" name="source" maxlength="4096" required
            hint="PEFT format. For image models, also the https URL of a .safetensors file." />
          <details><summary>Revision, token and description</summary>
            <${Field} label="Branch, tag or commit" name="revision" maxlength="256" />
            <${Field} label="Token for the hub or URL" name="token" type="password" autocomplete="off" maxlength="256" />
            <${Field} label="Description" name="description" maxlength="2000" />
          </details>
        <//>`,
    )}`;
}
