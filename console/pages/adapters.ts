import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { usableModels } from "../models.ts";
import { Act } from "../parts/act.ts";
import { Ago } from "../parts/ago.ts";
import { Field, Form } from "../parts/form.ts";
import { Status } from "../parts/status.ts";
import { type Column, Table } from "../parts/table.ts";

interface Adapter {
  readonly lora_name: string;
  readonly base_model: string;
  readonly status: string;
  readonly fail_reason: string;
  readonly updated_at: number;
  readonly source: {
    readonly repo?: string;
    readonly revision?: string;
    readonly url?: string;
    readonly civit_url?: string;
  };
  readonly commit: string;
  readonly description: string;
  readonly instances: { readonly running: number };
}

export function Adapters(): View {
  const api = useApi();
  const adapters = useLoaded(() => api.call<readonly Adapter[]>("GET", "/v1/user/loras"), [api], 5000);
  const bases = useLoaded(() => usableModels(api), [api]);
  const add = async (fields: Readonly<Record<string, string>>) => {
    const { name, base, source = "", revision = "", token = "", description = "" } = fields;
    const isUrl = /^https?:\/\//.test(source);
    await api.call("POST", "/v1/lora/create", {
      lora_name: name,
      base_model: base,
      description,
      source: {
        ...(isUrl ? { type: "url", url: source } : { type: "huggingface", repo: source }),
        ...(revision === "" ? {} : { revision }),
        ...(token === "" ? {} : { token }),
      },
    });
    await adapters.reload();
  };
  const columns: readonly Column<Adapter>[] = [
    {
      name: "Adapter",
      value: (one) => one.lora_name,
      show: (one) =>
        html`${one.lora_name}${one.description && html`<br /><span class="quiet">${one.description}</span>`}`,
    },
    { name: "Of the model", value: (one) => one.base_model },
    {
      name: "State",
      value: (one) => one.status,
      show: (one) =>
        html`<${Status} of=${one.status} /><br /><small>held by ${one.instances.running} instance${one.instances.running === 1 ? "" : "s"}</small>`,
    },
    { name: "Why", value: (one) => one.fail_reason },
    {
      name: "From",
      value: ({ source }) => source.repo ?? source.url ?? source.civit_url ?? "",
      show: ({ source, commit }) =>
        html`${source.repo ?? source.url ?? source.civit_url}${commit && html`<br /><code title=${commit}>${commit.slice(0, 12)}</code>`}`,
    },
    { name: "Last change", value: (one) => one.updated_at, show: (one) => html`<${Ago} at=${one.updated_at} />` },
    {
      name: "",
      value: () => null,
      show: (one) => html`<${Act} label="Delete" command=${`stoker lora delete ${one.lora_name}`}
        sure=${`Delete ${one.lora_name}? Requests that name it are refused from then on.`}
        onAct=${async () => {
          await api.call("DELETE", `/v1/lora/${encodeURIComponent(one.lora_name)}`);
          await adapters.reload();
        }} />`,
    },
  ];
  return html`${shown(
    adapters,
    (rows) => html`<${Table} name="adapters" rows=${rows} columns=${columns} keyOf=${(one: Adapter) => one.lora_name}
      empty="No adapter yet. A LoRA adapter changes what a model answers; requests name it as they would name a model." />`,
  )}
    <h2>Add an adapter</h2>
    ${shown(bases, (models) =>
      models.length === 0
        ? html`<p>No model is served that it could adapt. <a href="/console/deployments/new">Deploy one</a> first.</p>`
        : html`<${Form} act="Add it" done="Added: it is loaded when the first request for it comes." onSend=${add}>
          <${Field} label="Name of the adapter" name="name" maxlength="256" placeholder="you/adapter" required
            hint=${html`<code class="command">stoker lora add you/adapter --repo REPO --base MODEL</code>`} />
          <label>Model that it adapts<select name="base">${models.map((one) => html`<option>${one.model_name}</option>`)}</select></label>
          <${Field} label="Repository on the hub" name="source" maxlength="4096" required
            hint="In PEFT format. For a model that paints, also the https address of one .safetensors file." />
          <details><summary>Revision, token and description</summary>
            <${Field} label="Branch, tag or commit" name="revision" maxlength="256" />
            <${Field} label="Token of the hub, or of the address" name="token" type="password" autocomplete="off" maxlength="256" />
            <${Field} label="Description" name="description" maxlength="2000" />
          </details>
        <//>`,
    )}`;
}
