// Grafana's JSON of a board. Schema: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
import type { Board, Panel, Query } from "./boards.ts";

const width = 8;
const height = 8;
const perRow = 3;
const schemaVersion = 39;
const source = { type: "prometheus", uid: "$source" };

export function grafanaOf({ id, title, choice, rows }: Board): object {
  const panels: object[] = [];
  let y = 0;
  for (const row of rows) {
    panels.push({
      id: panels.length + 1,
      type: "row",
      title: row.title,
      collapsed: false,
      gridPos: { x: 0, y, w: 24, h: 1 },
    });
    y += 1;
    for (const [at, panel] of row.panels.entries()) {
      const gridPos = { x: (at % perRow) * width, y: y + Math.floor(at / perRow) * height, w: width, h: height };
      panels.push({ id: panels.length + 1, gridPos, ...panelOf(panel) });
    }
    y += Math.ceil(row.panels.length / perRow) * height;
  }
  return {
    uid: id,
    title,
    tags: ["stoker"],
    schemaVersion,
    editable: true,
    refresh: "30s",
    time: { from: "now-6h", to: "now" },
    templating: { list: [sourceChoice, ...(choice ? [labelChoice(choice)] : [])] },
    panels,
  };
}

function panelOf({ title, about, unit, kind = "lines", queries }: Panel): object {
  const isNumber = kind === "number";
  return {
    type: isNumber ? "stat" : "timeseries",
    title,
    ...(about === undefined ? {} : { description: about }),
    datasource: source,
    fieldConfig: {
      defaults: {
        unit,
        min: unit === "percentunit" ? undefined : 0,
        ...(isNumber
          ? {}
          : {
              custom: {
                fillOpacity: kind === "stack" ? 30 : 0,
                stacking: { mode: kind === "stack" ? "normal" : "none" },
                showPoints: "never",
                spanNulls: false,
              },
            }),
      },
      overrides: [],
    },
    ...(isNumber
      ? { options: { reduceOptions: { calcs: ["lastNotNull"] }, graphMode: "area" } }
      : {
          options: { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
        }),
    targets: queries.map((query, at) => targetOf(query, at)),
  };
}

const targetOf = ({ expr, legend }: Query, at: number): object => ({
  refId: String.fromCharCode("A".charCodeAt(0) + at),
  datasource: source,
  expr,
  legendFormat: legend || "__auto",
});

const sourceChoice = { name: "source", label: "Prometheus", type: "datasource", query: "prometheus" };

const labelChoice = ({ name, label, metric }: NonNullable<Board["choice"]>): object => ({
  name,
  label: name,
  type: "query",
  datasource: source,
  query: { query: `label_values(${metric}, ${label})`, refId: name },
  refresh: 2,
  includeAll: true,
  allValue: ".+",
  multi: true,
  current: { text: "All", value: "$__all" },
});
