// A real Prometheus scrapes every part by deploy/prometheus.yaml, loads the alerts, and has data for each panel of the boards.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { boards } from "../../../scripts/boards/boards.ts";
import { type FormatsEngine, startFormatsEngine } from "../../fakes/formats-engine.ts";
import { freePort } from "../../fakes/free-port.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";

const deploy = join(import.meta.dirname, "../../../deploy");
const hasPrometheus = spawnSync("prometheus", ["--version"]).status === 0;
if (!hasPrometheus) console.log("Skipped: no Prometheus, so NOT PROVEN: panels and alerts have data from a real one.");
const patience = { timeout: 60_000, interval: 200 };

interface Answer {
  readonly status: string;
  readonly error?: string;
  readonly data: { readonly result: readonly { readonly metric: Readonly<Record<string, string>> }[] };
}

describe.skipIf(!hasPrometheus)("a real Prometheus", () => {
  const model = "fake/plain";
  const folder = mkdtempSync(join(tmpdir(), "stoker-prometheus-"));
  let stack: Stack;
  let engine: FormatsEngine;
  let prometheus: ChildProcess;
  let address = "";

  beforeAll(async () => {
    [stack, engine] = await Promise.all([startStack({ agents: 1 }), startFormatsEngine([model], "llamacpp")]);
    const external = { name: model, url: engine.origin, max_batch_size: 64 };
    const made = await stack.call("POST", "/v1/admin/external", external);
    const pricing = { input: 3, cached_input: 1, output: 20 };
    await stack.call("PUT", `/v1/admin/models/${model}`, { deploy_id: made.body.deploy_id, description: "", pricing });
    const { admin } = JSON.parse(readFileSync(stack.controlPlane.portsFile, "utf8")) as { admin: number };
    const config = readFileSync(join(deploy, "prometheus.yaml"), "utf8")
      .replaceAll("127.0.0.1:9091", `127.0.0.1:${admin}`)
      .replaceAll(/(scrape|evaluation|refresh)_interval: 15s/g, "$1_interval: 1s")
      .replace("alerts.yaml", join(deploy, "alerts.yaml"));
    writeFileSync(join(folder, "prometheus.yaml"), config);
    const port = await freePort();
    address = `http://127.0.0.1:${port}`;
    prometheus = spawn(
      "prometheus",
      [
        `--config.file=${folder}/prometheus.yaml`,
        `--storage.tsdb.path=${folder}/data`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: "ignore" },
    );
    await vi.waitFor(async () => expect((await fetch(`${address}/-/ready`)).status).toBe(200), patience);
  }, 120_000);
  afterAll(async () => {
    if (prometheus && prometheus.exitCode === null) {
      const ended = new Promise((resolve) => prometheus.once("exit", resolve));
      prometheus.kill("SIGKILL");
      await ended;
    }
    await stack?.stop();
    await engine?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  async function ask(expr: string): Promise<Answer> {
    const query = expr.replaceAll("$__rate_interval", "10s").replaceAll("$deployment", ".+");
    const reply = await fetch(`${address}/api/v1/query?${new URLSearchParams({ query })}`);
    return (await reply.json()) as Answer;
  }

  it("scrapes control planes, agents and engines, and loads every alert", async () => {
    await vi.waitFor(async () => {
      const { data } = await ask("up == 1");
      const seen = data.result.map(({ metric }) => metric["job"]);
      expect(seen.filter((job) => job === "stoker")).toHaveLength(1);
      expect(seen.filter((job) => job === "stoker-agents")).toHaveLength(2);
    }, patience);
    expect((await ask("up == 0")).data.result).toEqual([]);
    const rules = (await (await fetch(`${address}/api/v1/rules`)).json()) as {
      data: { groups: { rules: { name: string; health: string }[] }[] };
    };
    const all = rules.data.groups.flatMap((group) => group.rules);
    expect(all.length).toBe(readFileSync(join(deploy, "alerts.yaml"), "utf8").match(/- alert:/g)?.length);
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
