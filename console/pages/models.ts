import { useApi } from "../api.ts";
import { count } from "../format.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { type ModelSummary, usableModels } from "../models.ts";
import { Ago } from "../parts/ago.ts";
import { type Column, Table } from "../parts/table.ts";

export function Models(): View {
  const api = useApi();
  const models = useLoaded(() => usableModels(api), [api], 60_000);
  return shown(
    models,
    (
      rows,
    ) => html`<${Table} name="models" rows=${rows} columns=${columns} keyOf=${(model: ModelSummary) => model.model_name}
      empty=${html`No model is served yet. <a href="/console/deployments/new">Deploy one</a>.`} />`,
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
    value: (model) => model.max_tokens ?? 0,
    show: (model) => (model.max_tokens === null ? "–" : `${count(model.max_tokens)} tokens`),
  },
  { name: "Seen by", value: (model) => (model.private ? "this account" : "everybody") },
  {
    name: "Standing",
    value: (model) => (model.deprecated === null ? "offered" : `deprecated, ${model.replaced_by ?? ""}`),
    show: (model) => standing(model),
  },
];

export const modelPage = (name: string): string => `/console/models/${encodeURIComponent(name)}`;

interface Deprecable {
  readonly deprecated: number | null;
  readonly replaced_by: string | null;
}

export function standing({ deprecated, replaced_by: other }: Deprecable): View {
  if (deprecated === null) return "● offered";
  return html`▲ deprecated <${Ago} at=${deprecated} />${other && html`, replaced by <a href=${modelPage(other)}>${other}</a>`}`;
}
