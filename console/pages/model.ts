import { useApi } from "../api.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Ago } from "../parts/ago.ts";
import { Code } from "../parts/copy.ts";
import { standing } from "./models.ts";

interface ModelRecord {
  readonly model_name: string;
  readonly type: string;
  readonly version: string;
  readonly description: string;
  readonly quantization: string;
  readonly curl_inv: string;
  readonly cmdline_inv: string;
  readonly deprecated: number | null;
  readonly sunset: number | null;
  readonly replaced_by: string | null;
  readonly max_tokens: number | null;
  readonly max_output_tokens: number | null;
  readonly meta: { readonly license_url: string };
  readonly pricing: { readonly full: string };
  readonly schemas: readonly { readonly key: string; readonly url: string }[];
  readonly in_fields: readonly { readonly name: string; readonly ftype: string; readonly description: string }[];
}

export function Model({ name }: { name: string }): View {
  const api = useApi();
  const path = `/models/${name.split("/").map(encodeURIComponent).join("/")}`;
  const record = useLoaded(() => api.call<ModelRecord>("GET", path), [api, path]);
  return shown(
    record,
    (model) => html`<h2>${model.model_name}</h2>
      <p>${model.description}</p>
      <dl>
        <dt>Task</dt><dd>${model.type}</dd>
        <dt>Price</dt><dd>${model.pricing.full}</dd>
        <dt>Context</dt><dd>${model.max_tokens === null ? "–" : `${count(model.max_tokens)} tokens`}</dd>
        <dt>Longest answer</dt><dd>${model.max_output_tokens === null ? "–" : `${count(model.max_output_tokens)} tokens`}</dd>
        <dt>Standing</dt><dd>${standing(model)}${model.sunset !== null && html`, gone <${Ago} at=${model.sunset} />`}</dd>
        <dt>Version</dt><dd><code>${model.version || "–"}</code></dd>
        ${model.quantization && html`<dt>Quantization</dt><dd>${model.quantization}</dd>`}
        <dt>Ways to ask</dt><dd>${model.schemas.map(({ key, url }) => html`<a href=${url}>${key}</a> `)}</dd>
      </dl>
      ${model.type === "text-generation" && html`<p><a href=${`/console?${new URLSearchParams({ model: name })}`}>Try it in the playground</a></p>`}
      ${model.curl_inv && html`<h2>With curl</h2><${Code} text=${model.curl_inv} />`}
      ${model.cmdline_inv && html`<h2>With the command line</h2><${Code} text=${model.cmdline_inv} />`}
      <h2>What it takes</h2>
      <div class="wide"><table><thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col">What it is</th></tr></thead>
        <tbody>${model.in_fields.map(
          (field) =>
            html`<tr><td><code>${field.name}</code></td><td>${field.ftype}</td><td>${field.description}</td></tr>`,
        )}</tbody></table></div>`,
  );
}
