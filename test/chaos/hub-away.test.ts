// The hub is gone, and an agent is killed in the middle of a download: real agents, a hub of ours.
import { randomBytes } from "node:crypto";
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { startHub } from "../fakes/hub.ts";
import { type LocalAgent, makeLocalAgent } from "../fakes/local-agent.ts";
import { type Stack, startStack } from "../fakes/processes.ts";

const model = Buffer.concat([Buffer.from("GGUF"), randomBytes(6_000_000)]);
const repo = "acme/tiny-GGUF";
const name = "tiny.Q4_K_M.gguf";
const runtime = join(import.meta.dirname, "../fakes/tiny-runtime.ts");
const waiting = { timeout: 120_000, interval: 200 };

const page = async (port: number): Promise<string> => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
const bytesFrom = (text: string, source: string): number =>
  Number(new RegExp(`^stoker_download_bytes_total\\{source="${source}"\\} (\\S+)$`, "m").exec(text)?.[1] ?? 0);

describe("with the hub down", () => {
  let stack: Stack | undefined;
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail" && stack)
      for (const part of [stack.controlPlane, ...stack.agents]) process.stderr.write(part.log().slice(-6000));
    await stack?.stop();
  });

  it("gives a second agent verified weights from the first", async () => {
    const hub = await startHub({ repo, files: { [name]: model } });
    const running = await startStack({
      isDatabaseOnDisk: true,
      agents: 2,
      agentEnv: { STOKER_GPUS: "1", STOKER_RUNTIME_ENTRY: runtime, STOKER_MODELS_DIR: "", HF_ENDPOINT: hub.url },
    });
    stack = running;
    const deploy = async (modelName: string): Promise<void> => {
      const made = await running.call("POST", "/deploy/llm", {
        model_name: modelName,
        gpu: "other",
        max_batch_size: 2,
        hf: { repo },
        settings: { min_instances: 1, max_instances: 1 },
      });
      expect(made.status, JSON.stringify(made.body)).toBe(200);
      await vi.waitFor(async () => {
        const { body } = await running.call("GET", `/deploy/${made.body.deploy_id}`);
        expect(body).toMatchObject({ status: "deployed", instances: { running: 1 } });
      }, waiting);
    };
    const copies = (): string[][] =>
      [1, 2].map((n) =>
        globSync(`models/models--acme--tiny-GGUF/snapshots/*/${name}`, { cwd: running.agentFolder(n) }),
      );

    await deploy("admin/first");
    const first = copies().findIndex((found) => found.length > 0);
    const second = 1 - first;
    expect(copies()[second]).toEqual([]);
    await hub.close();
    await deploy("admin/second");

    const [copy = ""] = copies()[second] ?? [];
    const folder = running.agentFolder(second + 1);
    expect(model.equals(readFileSync(join(folder, copy)))).toBe(true);
    const { metrics_port } = JSON.parse(readFileSync(join(folder, "agent.json"), "utf8"));
    const text = await page(metrics_port);
    expect(bytesFrom(text, "peer")).toBe(model.length);
    expect(bytesFrom(text, "hub")).toBe(0);
    expect(hub.sentBytes).toBe(model.length);

    // What lies there is what a prefetch of it finds: pinned, told by the host, and let go again.
    const { nodes } = (await running.call("GET", "/v1/admin/nodes")).body;
    const list = `/v1/admin/nodes/${nodes[0].node_id}/weights`;
    const asked = await running.call("POST", list, { repo, pin: true });
    expect(asked.body).toMatchObject({ repo, revision: "main", format: "gguf", pinned: true });
    await vi.waitFor(async () => {
      const [one] = (await running.call("GET", list)).body.weights;
      expect(one).toMatchObject({ state: "ready", commit: hub.commit, bytes: model.length, fail_code: "" });
    }, waiting);
    expect((await running.call("DELETE", `${list}/${asked.body.prefetch_id}`)).status).toBe(200);
    expect((await running.call("GET", list)).body).toEqual({ weights: [] });
    const { entries } = (await running.call("GET", "/v1/admin/audit?action=node")).body;
    expect(entries.slice(0, 2).map(({ action }: { action: string }) => action)).toEqual([
      "node.prefetch_drop",
      "node.prefetch",
    ]);
  });
});

describe("an agent killed in the middle of a download", () => {
  let agent: LocalAgent;
  afterEach(async ({ task }) => {
    if (task.result?.state === "fail") process.stderr.write(agent.log());
    await agent.clean();
  });

  it("goes on where it was: no byte that reached its disk is fetched again", async () => {
    const hub = await startHub({ repo, files: { [name]: model } });
    hub.faults.stallAfterBytes = 4_000_000;
    agent = makeLocalAgent();
    const env = { HF_ENDPOINT: hub.url, STOKER_MODELS_DIR: join(agent.folder, "models") };
    const spec = agent.spec({ weights: { repo, file: name } });
    agent.want([spec]);
    agent.start(env);
    const blobs = join(agent.folder, "models", "blobs");
    await vi.waitFor(() => {
      const [part = ""] = existsSync(blobs) ? globSync("*.incomplete", { cwd: blobs }) : [];
      expect(statSync(join(blobs, part)).size).toBe(4_000_000);
    }, waiting);
    await agent.kill("SIGKILL");
    delete hub.faults.stallAfterBytes;

    agent.start(env);
    await vi.waitFor(async () => expect((await agent.complete(spec.instanceId ?? ""))?.status).toBe(200), waiting);
    expect(hub.sentBytes).toBe(model.length);
    expect(bytesFrom(await page(agent.ports().metrics_port), "hub")).toBe(model.length - 4_000_000);
    const [copy = ""] = globSync("models/models--acme--tiny-GGUF/snapshots/*/*.gguf", { cwd: agent.folder });
    expect(model.equals(readFileSync(join(agent.folder, copy)))).toBe(true);
    await hub.close();
  });
});
