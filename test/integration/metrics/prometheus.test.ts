// A real Prometheus scrapes every part by deploy/prometheus.yaml, loads the alerts, and has data for each panel of the boards.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { boards } from "../../../scripts/boards/boards.ts";
import { type FormatsEngine, startFormatsEngine } from "../../fakes/formats-engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { alertRules, hasPrometheus, type Prometheus, startPrometheus } from "../../fakes/prometheus.ts";

if (!hasPrometheus) console.log("Skipped: no Prometheus, so NOT PROVEN: panels and alerts have data from a real one.");
const patience = { timeout: 60_000, interval: 200 };

describe.skipIf(!hasPrometheus)("a real Prometheus", () => {
  const model = "fake/plain";
  let stack: Stack;
  let engine: FormatsEngine;
  let prometheus: Prometheus;

  beforeAll(async () => {
    [stack, engine] = await Promise.all([startStack({ agents: 1 }), startFormatsEngine([model], "llamacpp")]);
    const external = { name: model, url: engine.origin, max_batch_size: 64 };
    const made = await stack.call("POST", "/v1/admin/external", external);
    const pricing = { input: 3, cached_input: 1, output: 20 };
    await stack.call("PUT", `/v1/admin/models/${model}`, { deploy_id: made.body.deploy_id, description: "", pricing });
    prometheus = await startPrometheus(stack);
  }, 120_000);
  afterAll(async () => {
    await prometheus?.stop();
    await stack?.stop();
    await engine?.close();
  });

  const ask = (expr: string) =>
    prometheus.ask(expr.replaceAll("$__rate_interval", "10s").replaceAll("$deployment", ".+"));

  it("scrapes control planes, agents and engines, and loads every alert", async () => {
    await vi.waitFor(async () => {
      const { data } = await ask("up == 1");
      const seen = data.result.map(({ metric }) => metric["job"]);
      expect(seen.filter((job) => job === "stoker")).toHaveLength(1);
      expect(seen.filter((job) => job === "stoker-agents")).toHaveLength(2);
    }, patience);
    expect((await ask("up == 0")).data.result).toEqual([]);
    const rules = (await prometheus.get("/api/v1/rules")) as {
      data: { groups: { rules: { name: string; health: string }[] }[] };
    };
    const all = rules.data.groups.flatMap((group) => group.rules);
    expect(all.length).toBe(alertRules.match(/- alert:/g)?.length);
  });

  it("has data for each panel", async () => {
    const chat = (stream: boolean) =>
      fetch(`${stack.url}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "Hi" }], max_tokens: 8, stream }),
      }).then((reply) => reply.text());
    const panels = boards.flatMap((board) =>
      board.rows.flatMap((row) => row.panels.map((panel) => ({ board, panel }))),
    );
    await vi.waitFor(async () => {
      // Rates need two samples with traffic between them.
      await Promise.all([chat(true), chat(false)]);
      const empty: string[] = [];
      for (const { board, panel } of panels)
        for (const { expr } of panel.queries) {
          const { status, error, data } = await ask(expr);
          expect(status, `${board.title}, ${panel.title}: ${error}`).toBe("success");
          if (data.result.length === 0 && panel.mayBeEmpty === undefined) empty.push(`${board.title}, ${panel.title}`);
        }
      expect(empty).toEqual([]);
    }, patience);
    expect(panels.length).toBeGreaterThan(40);
  }, 90_000);
});
