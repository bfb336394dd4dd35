import type { Responses } from "../../proto/gen/responses.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Ago, Code } from "../parts/controls.ts";
import { statusText } from "./models.ts";

type ModelRecord = Responses["GET /models/{model_name}"];

export function Model({ name }: { name: string }): View {
  const path = `/models/${name.split("/").map(encodeURIComponent).join("/")}`;
  const record = useGet<ModelRecord>(path);
  return shown(
    record,
    (model) => html`<h2>${model.model_name}</h2>
      <p>${model.description}</p>
      <dl>
        <dt>Task</dt><dd>${model.type}</dd>
        <dt>Price</dt><dd>${model.pricing.full}</dd>
        <dt>Context</dt><dd>${model.max_tokens === 0 ? "–" : `${count(model.max_tokens)} tokens`}</dd>
        <dt>Maximum output</dt><dd>${model.max_output_tokens === 0 ? "–" : `${count(model.max_output_tokens)} tokens`}</dd>
        <dt>Status</dt><dd>${statusText(model)}${model.sunset !== 0 && html`, removal <${Ago} at=${model.sunset} />`}</dd>
        <dt>Version</dt><dd><code>${model.version || "–"}</code></dd>
        ${model.quantization && html`<dt>Quantization</dt><dd>${model.quantization}</dd>`}
        <dt>API variants</dt><dd>${model.schemas.map(({ key, url }) => html`<a href=${url}>${key}</a> `)}</dd>
      </dl>
      ${model.type === "text-generation" && html`<p><a href=${`/console?${new URLSearchParams({ model: name })}`}>Open in playground</a></p>`}
      ${model.curl_inv && html`<h2>curl</h2><${Code} text=${model.curl_inv} />`}
      ${model.cmdline_inv && html`<h2>Command line</h2><${Code} text=${model.cmdline_inv} />`}
      <h2>Parameters</h2>
      <div class="wide"><table><thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col">Description</th></tr></thead>
        <tbody>${model.in_fields.map(
          (field) =>
            html`<tr><td><code>${field.name}</code></td><td>${field.ftype}</td><td>${field.description}</td></tr>`,
        )}</tbody></table></div>`,
  );
}
