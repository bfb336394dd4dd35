import { useApi } from "../api.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { type ModelSummary, usableModels } from "../models.ts";
import { Ago } from "../parts/controls.ts";
import { type Column, Table } from "../parts/table.ts";

export function Models(): View {
  const api = useApi();
  const models = useLoaded(() => usableModels(api), [api], 60_000);
  return shown(
    models,
    (
      rows,
    ) => html`<${Table} name="models" rows=${rows} columns=${columns} keyOf=${(model: ModelSummary) => model.model_name}
      empty=${html`No models. <a href="/console/deployments/new">Deploy one</a>.`} />`,
  );
}

const columns: readonly Column<ModelSummary>[] = [
  {
    name: "Model",
    value: (model) => model.model_name,
    show: (model) => html`<a href=${modelPage(model.model_name)}>${model.model_name}</a>
      ${model.description && html`<br /><span class="quiet">${model.description}</span>`}`,
  },
  { name: "Task", value: (model) => model.type },
  { name: "Price", value: (model) => model.pricing.short },
  {
    name: "Context",
    value: (model) => model.max_tokens,
    show: (model) => (model.max_tokens === 0 ? "–" : `${count(model.max_tokens)} tokens`),
  },
  { name: "Visible to", value: (model) => (model.private ? "this account" : "everyone") },
  {
    name: "Status",
    value: (model) => (model.deprecated === 0 ? "available" : `deprecated, ${model.replaced_by}`),
    show: (model) => statusText(model),
  },
];

export const modelPage = (name: string): string => `/console/models/${encodeURIComponent(name)}`;

interface Deprecable {
  readonly deprecated: number;
  readonly replaced_by: string;
}

export function statusText({ deprecated, replaced_by: other }: Deprecable): View {
  if (deprecated === 0) return "● available";
  return html`▲ deprecated <${Ago} at=${deprecated} />${other && html`, replaced by <a href=${modelPage(other)}>${other}</a>`}`;
}
