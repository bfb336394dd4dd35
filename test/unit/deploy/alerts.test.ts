// The alerts that an operator is given name metrics that are there: a rule on one that was renamed would never fire.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Registry } from "prom-client";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { ingressMetrics } from "../../../agent/ingress/ingress-metrics.ts";
import { createAgentMetrics } from "../../../agent/metrics/agent-metrics.ts";
import { normalisedNames } from "../../../agent/metrics/engine-names.ts";
import { addGpuMetrics } from "../../../agent/metrics/gpu-metrics.ts";
import { addUsageMetrics } from "../../../agent/metrics/usage-metrics.ts";
import { createBillingMetrics } from "../../../control-plane/billing/metrics.ts";
import { createFleetMetrics } from "../../../control-plane/deployments/fleet-metrics.ts";
import { createEdgeMetrics } from "../../../control-plane/http/core/edge-metrics.ts";
import { createWebhookMetrics } from "../../../control-plane/webhooks/metrics.ts";

const deploy = join(import.meta.dirname, "../../../deploy");
const file = join(deploy, "alerts.yaml");
const testFile = join(deploy, "alerts.test.yaml");

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}
const { groups } = parse(readFileSync(file, "utf8")) as { groups: { readonly rules: readonly Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);

function knownNames(): ReadonlySet<string> {
  const agent = createAgentMetrics();
  addGpuMetrics(agent.registry, "native", () => undefined);
  addUsageMetrics(
    agent.registry,
    () => undefined,
    () => [],
  );
  ingressMetrics(agent.registry, () => []);
  const plane = new Registry();
  createBillingMetrics(plane).watchHolds(() => ({ holds: 0, holdAmount: 0n, leases: 0, leased: 0n }) as never);
  createEdgeMetrics(plane);
  createFleetMetrics(plane);
  createWebhookMetrics(plane);
  const names = [agent.registry, plane].flatMap((one) => one.getMetricsAsArray().map(({ name }) => name));
  return new Set([...names, ...normalisedNames.map(({ name }) => name)]);
}

it("each alert asks for metrics that a page has, and says in a sentence what is wrong", () => {
  const known = knownNames();
  for (const { alert, expr, annotations } of rules) {
    const asked = expr.match(/\b(stoker|gen_ai_server|container|http)_[a-z_]+/g) ?? [];
    expect(asked.length, alert).toBeGreaterThan(0);
    const unknown = asked.filter((name) => !known.has(name) && !known.has(name.replace(/_(bucket|sum|count)$/, "")));
    expect(unknown, alert).toEqual([]);
    expect(annotations.summary, alert).toMatch(/^.{20,}\.$/);
  }
});

it("each alert links to its runbook, and each runbook has an alert", () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/operations/alerts.md"), "utf8");
  const sections = page.split(/^## /m).slice(1);
  const titles = sections.map((text) => text.slice(0, text.indexOf("\n")));
  expect(titles).toEqual(rules.map(({ alert }) => alert));
  for (const { alert, annotations } of rules)
    expect(annotations.runbook_url).toBe(`https://stoker.example.com/docs/operations/alerts#${alert.toLowerCase()}`);
  for (const text of sections) for (const part of ["Means", "Check", "Do"]) expect(text).toContain(`**${part}.**`);
});

it("the convention's alerts are there, each once", () => {
  const names = rules.map(({ alert }) => alert);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toEqual(
    expect.arrayContaining([
      ...["NodeLeaseLost", "SpoolAge", "LedgerImbalance", "HoldsOpen", "WebhookExhausted", "InstanceCrashLoop"],
      ...[
        "GpuXid",
        "KvCacheFull",
        "WaitingBesideFreePlaces",
        "TtftOverObjective",
        "DiskFree",
        "CertExpiry",
        "ClockSkew",
      ],
    ]),
  );
});

it.for([
  ["check", "rules", file],
  ["check", "config", join(deploy, "prometheus.yaml")],
  // Each alert fires on its fault, after its time, and nothing else does.
  ["test", "rules", testFile],
])("promtool %s %s accepts %s", (args, context) => {
  const { error, status, stdout, stderr } = spawnSync("promtool", args, { encoding: "utf8" });
  if (error) {
    process.stderr.write("\nNOT PROVEN: promtool is not installed; the alerting rules were not tested by it.\n\n");
    return context.skip("promtool is not installed");
  }
  expect(status, stdout + stderr).toBe(0);
});

it("each alert has a test of its own, which expects it and no other", () => {
  const { tests } = parse(readFileSync(testFile, "utf8")) as {
    tests: { name: string; promql_expr_test: { exp_samples: { labels: string }[] }[] }[];
  };
  const expected = tests.map(
    ({ name, promql_expr_test: all }) => [name, all.flatMap((one) => one.exp_samples)] as const,
  );
  expect(expected.slice(1).map(([name]) => name)).toEqual(rules.map(({ alert }) => alert));
  for (const [name, samples] of expected.slice(1))
    expect(samples.map(({ labels }) => labels)).toEqual([`{alertname="${name}"}`]);
});
