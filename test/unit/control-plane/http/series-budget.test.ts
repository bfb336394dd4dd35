// Series on a control plane's metrics page (at most 20,000) after every endpoint returned every status that it declares, 50 models
// were served and failed in every way, and 64 hosts reported; and the addresses of the agents' pages for Prometheus.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Registry } from "prom-client";
import { beforeAll, expect, it, vi } from "vitest";
import { createBillingMetrics } from "../../../../control-plane/billing/metrics.ts";
import { createFleetMetrics } from "../../../../control-plane/deployments/fleet-metrics.ts";
import { createAdminHttp } from "../../../../control-plane/http/core/create-admin-http.ts";
import { createEdgeMetrics } from "../../../../control-plane/http/core/edge-metrics.ts";
import { createDashboardMetrics } from "../../../../control-plane/http/dashboards/dashboard-metrics.ts";
import { errorKinds } from "../../../../control-plane/http/errors/error-kinds.ts";
import type { Trace } from "../../../../control-plane/inference/completion.ts";
import type { ErrorKind } from "../../../../control-plane/service-error.ts";
import { addProcessMetrics } from "../../../../control-plane/wiring/process.ts";
import { lint, seriesIn } from "../../../fakes/exposition.ts";
import { hostView, inventory } from "../../../fakes/fleet-records.ts";

const registry = new Registry();
const failureLabels = [...(Object.keys(errorKinds) as ErrorKind[]), "client_gone"] as const;
const fleet = createFleetMetrics(registry);
const admin = createAdminHttp(registry, fleet.targets);

interface Documented {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses?: object }>>>>;
}

function answerEverything(): number {
  const edge = createEdgeMetrics(registry);
  const { paths } = JSON.parse(
    readFileSync(join(import.meta.dirname, "../../../../docs/openapi.json"), "utf8"),
  ) as Documented;
  let sets = 0;
  for (const [path, methods] of Object.entries(paths))
    for (const [method, { responses }] of Object.entries(methods)) {
      const meter = edge.meter(method, path);
      for (const status of [...Object.keys(responses ?? {}), 499, 500]) {
        meter.ended(Number(status), 0.01);
        sets += 1;
      }
    }
  for (let n = 0; n < 50; n++)
    for (const operation of ["chat", "text_completion"] as const) {
      const trace = {
        model: `owner/model-${n}`,
        operation,
        isStream: true,
        startedMs: 0,
        firstByteMs: 10,
        usage: { input: 1, cached: 0, output: 5 },
      } as unknown as Trace;
      edge.served(trace, 1, undefined);
      for (const error of failureLabels) edge.served(trace, 1, error);
    }
  return sets;
}

beforeAll(async () => {
  addProcessMetrics(registry);
  createBillingMetrics(registry);
  const dashboards = createDashboardMetrics(registry);
  for (const status of [101, 200, 303, 404, 499, 503]) dashboards.answered(status);
  for (const direction of ["in", "out"] as const) dashboards.passed(direction, 1);
  expect(answerEverything()).toBeGreaterThan(500);
  const hosts = Array.from({ length: 64 }, (_, n) =>
    hostView(`host-${n}`, {
      hostname: `node-${n}`,
      pool: n === 8 ? "rented" : "",
      // The last one tells no address: an agent of an older version.
      inventory: inventory({ metricsAddress: n === 63 ? "" : `10.0.0.${n}:9101` }),
    }),
  );
  const statuses = new Map([["deployed", 50]]);
  fleet.watch({
    snapshot: async () => hosts,
    sessions: () => 64,
    needsReconcile: () => false,
    deployments: () => statuses,
  });
  const ending = new AbortController();
  const running = fleet.run(ending.signal);
  await vi.waitFor(() => expect(fleet.targets().length).toBeGreaterThan(0), { timeout: 20_000 });
  ending.abort();
  await running;
});

const page = async () => (await admin.inject({ method: "GET", url: "/metrics" })).body;

it("a control plane with 50 models and 64 hosts stays within 18 800 of 20 000 series", async () => {
  const series = seriesIn(await page());
  expect(series.some((line) => line.includes("owner/model-49"))).toBe(true);
  expect(series).toContain('stoker_nodes{state="ready"} 64');
  expect(series.length).toBeGreaterThan(10_000);
  // Each group of operations adds about 35 series for each. The rest, 1,200, is for later ones.
  expect(series.length).toBeLessThanOrEqual(18_800);
});

it("every answer is counted by its exact status, and by how long it took where it is no refusal", async () => {
  const all = seriesIn(await page()).filter((line) => line.includes('route="/deploy/list"'));
  const named = (status: number) =>
    all
      .filter((line) => line.includes(`status="${status}"`))
      .map((line) => /le="([^"]*)"/.exec(line)?.[1] ?? /_(sum|count)\{/.exec(line)?.[1]);
  expect(named(200)).toEqual(["0.05", "0.5", "5", "+Inf", "sum", "count"]);
  for (const status of [401, 500, 503]) expect(named(status)).toEqual(["+Inf", "sum", "count"]);
});

it("failures beyond what there is room for are counted without their model, and none is lost", async () => {
  const counts = seriesIn(await page()).filter(
    (line) => line.startsWith("gen_ai_server_request_duration_seconds_count{") && line.includes("error_type="),
  );
  expect(counts.reduce((sum, line) => sum + Number(line.split("} ")[1]), 0)).toBe(50 * 2 * failureLabels.length);
  expect(counts.some((line) => line.includes('gen_ai_request_model="_other"'))).toBe(true);
});

it("tells Prometheus both pages of every agent that has them, by its name and id", async () => {
  const answer = await admin.inject({ method: "GET", url: "/metrics/targets" });
  expect(answer.headers["content-type"]).toMatch(/^application\/json/);
  const groups = answer.json();
  expect(groups).toHaveLength(2 * 63);
  expect(groups.filter((one: { targets: string[] }) => one.targets[0] === "10.0.0.7:9101")).toEqual([
    {
      targets: ["10.0.0.7:9101"],
      labels: { node: "node-7", node_id: "host-7", page: "metrics", __metrics_path__: "/metrics" },
    },
    {
      targets: ["10.0.0.7:9101"],
      labels: { node: "node-7", node_id: "host-7", page: "metrics/runtime", __metrics_path__: "/metrics/runtime" },
    },
  ]);
  const inPools = groups.filter((one: { labels: { pool?: string } }) => one.labels.pool !== undefined);
  expect(inPools).toHaveLength(2);
  expect(inPools[0].labels).toMatchObject({ node: "node-8", pool: "rented" });
});

it("the page is as Prometheus's own linter wants it", async (context) => {
  const found = lint(await page());
  if (found === undefined) return context.skip("promtool is not installed");
  expect(found).toBe("");
});
