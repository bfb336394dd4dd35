// Grafana's JSON of a board, made by the builders of Grafana's own SDK.
import {
  BigValueGraphMode,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  SortOrder,
  StackingConfigBuilder,
  StackingMode,
  TooltipDisplayMode,
  VisibilityMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from "@grafana/grafana-foundation-sdk/common";
import {
  type Dashboard,
  DashboardBuilder,
  DatasourceVariableBuilder,
  QueryVariableBuilder,
  RowBuilder,
  VariableRefresh,
} from "@grafana/grafana-foundation-sdk/dashboard";
import { DataqueryBuilder } from "@grafana/grafana-foundation-sdk/prometheus";
import { PanelBuilder as StatBuilder } from "@grafana/grafana-foundation-sdk/stat";
import { PanelBuilder as TimeseriesBuilder } from "@grafana/grafana-foundation-sdk/timeseries";
import type { Board, Panel, Query } from "./boards.ts";

/** Three panels fill a row of 24. */
const width = 8;
const height = 8;
const source = { type: "prometheus", uid: "$source" };

export function grafanaOf({ id, title, choice, rows }: Board): Dashboard {
  const board = new DashboardBuilder(title)
    .uid(id)
    .tags(["stoker"])
    .editable()
    .refresh("30s")
    .time({ from: "now-6h", to: "now" })
    .withVariable(new DatasourceVariableBuilder("source").label("Prometheus").type("prometheus"));
  if (choice) board.withVariable(labelChoice(choice));
  let panels = 0;
  for (const row of rows) {
    board.withRow(new RowBuilder(row.title).id(++panels));
    for (const panel of row.panels) board.withPanel(panelOf(panel).id(++panels));
  }
  return board.build();
}

function panelOf({ title, about, unit, kind = "lines", queries }: Panel): StatBuilder | TimeseriesBuilder {
  const panel =
    kind === "number"
      ? new StatBuilder()
          .reduceOptions(new ReduceDataOptionsBuilder().calcs(["lastNotNull"]))
          .graphMode(BigValueGraphMode.Area)
      : new TimeseriesBuilder()
          .fillOpacity(kind === "stack" ? 30 : 0)
          .stacking(new StackingConfigBuilder().mode(kind === "stack" ? StackingMode.Normal : StackingMode.None))
          .showPoints(VisibilityMode.Never)
          .legend(new VizLegendOptionsBuilder().displayMode(LegendDisplayMode.List).placement(LegendPlacement.Bottom))
          .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi).sort(SortOrder.Descending));
  panel.title(title).datasource(source).span(width).height(height).unit(unit);
  if (unit !== "percentunit") panel.min(0);
  if (about !== undefined) panel.description(about);
  for (const [at, query] of queries.entries()) panel.withTarget(targetOf(query, at));
  return panel;
}

const targetOf = ({ expr, legend }: Query, at: number): DataqueryBuilder =>
  new DataqueryBuilder()
    .refId(String.fromCharCode("A".charCodeAt(0) + at))
    .datasource(source)
    .expr(expr)
    .legendFormat(legend || "__auto");

const labelChoice = ({ name, label, metric }: NonNullable<Board["choice"]>): QueryVariableBuilder =>
  new QueryVariableBuilder(name)
    .label(name)
    .datasource(source)
    .query({ query: `label_values(${metric}, ${label})`, refId: name })
    .refresh(VariableRefresh.OnTimeRangeChanged)
    .includeAll(true)
    .allValue(".+")
    .multi(true)
    .current({ text: "All", value: "$__all" });
