// The runtime's own image with real weights on a real engine: serve, be adopted, be killed for memory, stop.
import { tmpdir } from "node:os";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { planInstance } from "../../agent/engines/plan-instance.ts";
import type { ContainerDriver, ContainerPlan, Observed } from "../../agent/reconcile/driver.ts";
import { demoModelByKey } from "../../control-plane/catalog/demo-models.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import { type InstanceId, randomId } from "../../proto/ids.ts";
import { clear, dockerHost, runtimeImage, testDriver } from "./docker-host.ts";
import { realModel, realWeights } from "./real-weights.ts";

const host = await dockerHost(
  "a real completion from the runtime's image, adoption, an out-of-memory kill, stop and logs",
);
const nodeName = `real-model-${process.pid}`;
const name = realModel;
let modelPath: string;
const signal = (): AbortSignal => AbortSignal.timeout(120_000);

describe.skipIf(!host.ok)("the runtime in a container with real weights", () => {
  let driver: ContainerDriver;

  beforeAll(async () => {
    modelPath = await realWeights();
    driver = testDriver(nodeName);
  });
  afterEach(async () => {
    if (host.ok) await clear(nodeName);
  });
  afterAll(() => driver?.close());

  it("serves a completion within the demo model's memory, is adopted by the next agent, and drains on stop", async () => {
    const plan = planOf(demoModelByKey("smollm2-135m")?.memoryBytes ?? 0);
    await driver.start(plan, signal());
    const seen = await ready(driver, plan.instanceId);
    const body = { model: name, prompt: "The capital of France is", max_tokens: 8, temperature: 0 };
    const answer = await post(`${seen.origin}/v1/completions`, body);
    expect(answer.choices[0]?.text).toContain("Paris");
    expect(answer.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 8 });

    await driver.close();
    driver = testDriver(nodeName);
    expect(await find(driver, plan.instanceId)).toEqual(seen);
    expect((await post(`${seen.origin}/v1/completions`, body)).choices[0]?.text).toContain("Paris");

    await driver.stop(plan.instanceId, 30_000, signal());
    expect(await find(driver, plan.instanceId)).toMatchObject({ state: "exited", exitCode: 0, oomKilled: false });
    const lines = (await driver.logs(plan.instanceId, { limit: 1000 }, signal())).map(({ line }) => line);
    expect(lines.some((line) => line.includes("model ready"))).toBe(true);
    expect(lines.every((line) => !line.includes("capital of France"))).toBe(true);
    await driver.remove(plan.instanceId, signal());
    expect(await driver.list(signal())).toEqual([]);
  });

  it("is killed when it exceeds its memory, with that reason", async () => {
    const plan = planOf(96 * 1024 * 1024);
    // Told nothing of its limit it does not keep within it.
    const { STOKER_MEMORY_BYTES: _, ...env } = plan.env;
    await driver.start({ ...plan, env }, signal());
    const seen = await vi.waitFor(
      async () => {
        const found = await find(driver, plan.instanceId);
        expect(found?.state).toBe("exited");
        return found;
      },
      { timeout: 120_000, interval: 200 },
    );
    expect(seen).toMatchObject({ oomKilled: true });
  });
});

function planOf(memoryBytes: number): ContainerPlan {
  const spec = {
    instanceId: randomId<"instance">(16),
    deployId: randomId<"deployment">(16),
    generation: "1",
    engine: "stoker",
    servedModelName: name,
    task: "text-generation",
    weights: null,
    gpuUuids: ["cpu-test-0"],
    maxBatchSize: 4,
    contextLength: 4096,
    memoryBytes: String(memoryBytes),
    cpus: 1,
    extraArgs: [],
    image: "",
    externalUrl: "",
    externalApi: "",
    draining: false,
    chatTemplate: "",
    agentInstance: null,
    rental: null,
    gpuMemoryBytes: "0",
    gpuShare: 0,
    sharesPrefixCache: false,
    adapters: [],
    sleepAfterSeconds: 0,
    awaitedAtMs: "0",
    owner: "",
    takesServerBatch: false,
  } satisfies InstanceSpec__Output;
  const facts = { driver: "docker", runtimeImage, allowedImages: [], filesDir: tmpdir(), logLevel: "info" } as const;
  const outcome = planInstance(spec, modelPath, facts);
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.plan;
}

async function find(driver: ContainerDriver, id: InstanceId): Promise<Observed | undefined> {
  return (await driver.list(signal())).find((one) => one.instanceId === id);
}

async function ready(driver: ContainerDriver, id: InstanceId): Promise<Extract<Observed, { state: "running" }>> {
  return vi.waitFor(
    async () => {
      const seen = await find(driver, id);
      if (seen?.state !== "running") throw new Error(`it is ${seen?.state}`);
      const health = await fetch(`${seen.origin}/health`, { signal: signal() });
      expect(health.status).toBe(200);
      return seen;
    },
    { timeout: 120_000, interval: 200 },
  );
}

interface Completion {
  readonly choices: readonly { readonly text: string }[];
  readonly usage: object;
}

async function post(url: string, body: object): Promise<Completion> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), signal: signal() });
  expect(answer.status).toBe(200);
  return (await answer.json()) as Completion;
}
