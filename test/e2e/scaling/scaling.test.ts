// One deployment on three real agents, one GPU each, over its life under load: it sleeps, is woken, grows, is updated, sleeps
// again, survives the drain of a host and an update that cannot start, and no request fails. Scaling runs twenty times faster,
// the host clocks five times.
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Stack, startStack } from "../../fakes/processes.ts";

const patient = { timeout: 60_000, interval: 100 };
const model = "admin/scaled";
const scalingClocks = "0.05";
let stack: Stack;
let deployId: string;

beforeAll(async () => {
  stack = await startStack({
    agents: 3,
    controlPlaneEnv: { STOKER_HOST_CLOCKS: "0.2", STOKER_SCALING_CLOCKS: scalingClocks },
    agentEnv: { STOKER_GPUS: "1", STOKER_RUNTIME_ENTRY: join(import.meta.dirname, "../../fakes/tiny-runtime.ts") },
  });
  const made = await stack.call("POST", "/deploy/llm", {
    model_name: model,
    gpu: "other",
    max_batch_size: 2,
    hf: { repo: "HuggingFaceTB/SmolLM2-135M-Instruct" },
    settings: { min_instances: 0, max_instances: 3, inactive_shutdown: 60 },
  });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  deployId = made.body.deploy_id;
  await vi.waitFor(async () => expect((await record()).status).toBe("deployed"), patient);
});
afterAll(() => stack?.stop());

const record = async () => (await stack.call("GET", `/deploy/${deployId}`)).body;
const put = async (body: object) => expect((await stack.call("PUT", `/deploy/${deployId}`, body)).status).toBe(200);
const asleep = () =>
  vi.waitFor(async () => {
    expect(await record()).toMatchObject({ status: "deployed", instances: { running: 0, pending: 0 } });
  }, patient);

async function nodeWithInstance(): Promise<string> {
  const { nodes } = (await stack.call("GET", "/v1/admin/nodes")).body;
  const found = nodes.find((node: { instances: unknown[] }) => node.instances.length > 0);
  return found.node_id;
}

const post = (body: object) =>
  fetch(`${stack.url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model, prompt: "hello", ...body }),
    signal: AbortSignal.timeout(120_000),
  });

/** Streams of five tokens, one second each, so many at a time, until stopped: what each of them came to. */
function load(callers: number) {
  const ends: string[] = [];
  let isOver = false;
  const call = async () => {
    while (!isOver) {
      const answer = await post({ stream: true, max_tokens: 5 });
      const text = await answer.text();
      const isWhole = answer.status === 200 && text.endsWith("data: [DONE]\n\n");
      ends.push(isWhole ? "whole" : `${answer.status} ${text.slice(-300)}`);
      if (!isWhole) await pause(100);
    }
  };
  const all = Promise.all(Array.from({ length: callers }, call));
  return {
    ends,
    async stop() {
      isOver = true;
      await all;
      return { served: ends.length, failed: ends.filter((end) => end !== "whole") };
    },
  };
}

async function restartedWith(STOKER_SCALING_CLOCKS: string): Promise<void> {
  await stack.controlPlane.stop();
  stack.controlPlane.start({ STOKER_SCALING_CLOCKS });
  await vi.waitFor(async () => {
    const { nodes } = (await stack.call("GET", "/v1/admin/nodes")).body;
    expect(nodes).toMatchObject([{ state: "ready" }, { state: "ready" }, { state: "ready" }]);
  }, patient);
}

it("sleeps without requests, and wakes one instance for fifty callers at once that serves them all", async () => {
  await asleep();
  // However long a slow machine takes to serve them, it is no load that lasts.
  await restartedWith("1");
  const answers = await Promise.all(Array.from({ length: 50 }, () => post({ max_tokens: 2 })));
  expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 200));
  const bodies = (await Promise.all(answers.map((answer) => answer.json()))) as { pid: number }[];
  expect(new Set(bodies.map((body) => body.pid)).size).toBe(1);
  await restartedWith(scalingClocks);
}, 240_000);

it("grows under load to its most, is updated under it without a failed request, and sleeps when the load is gone", async () => {
  const running = load(8);
  await vi.waitFor(async () => expect((await record()).instances.running).toBe(3), patient);
  // Every GPU is taken: one instance after the other is changed in its place, and the others take its requests.
  await put({ extra_args: ["--max-model-len=1024"] });
  await vi.waitFor(async () => {
    const now = await record();
    expect(now).toMatchObject({ status: "deployed", rollout: { up_to_date: 3, outdated: 0 }, update_error: "" });
  }, patient);
  const { served, failed } = await running.stop();
  expect(failed).toEqual([]);
  expect(served).toBeGreaterThan(20);
  await asleep();
}, 240_000);

it("drains a host under load without a failed request by replacing its instances elsewhere first", async () => {
  await put({ settings: { min_instances: 2, max_instances: 2 } });
  await vi.waitFor(async () => {
    expect(await record()).toMatchObject({ status: "deployed", instances: { running: 2, pending: 0 } });
  }, patient);
  const busy = await nodeWithInstance();
  const running = load(4);
  const begun = await stack.call("POST", `/v1/admin/nodes/${busy}/drain`, { note: "a test" });
  expect(begun.status, JSON.stringify(begun.body)).toBe(200);
  expect(begun.body).toMatchObject({ total: 1 });
  await vi.waitFor(async () => {
    expect((await stack.call("GET", `/v1/admin/nodes/${busy}/drain`)).body).toMatchObject({ left: 0 });
    expect(await record()).toMatchObject({ status: "deployed", instances: { running: 2, pending: 0 } });
  }, patient);
  const { failed } = await running.stop();
  expect(failed).toEqual([]);
  expect((await stack.call("POST", `/v1/admin/nodes/${busy}/uncordon`, { note: "done" })).status).toBe(200);
}, 240_000);

it("keeps the old instance serving when an update is broken, without a failed request, and reports the reason", async () => {
  await put({ settings: { min_instances: 1, max_instances: 1 } });
  await vi.waitFor(async () => expect((await record()).status).toBe("deployed"), patient);
  await vi.waitFor(async () => expect((await record()).instances.running).toBe(1), patient);
  const running = load(2);
  await put({ extra_args: ["--max-model-len=666"] });
  await vi.waitFor(async () => expect((await record()).update_error).not.toBe(""), {
    timeout: 120_000,
    interval: 200,
  });
  await vi.waitFor(async () => {
    expect(await record()).toMatchObject({
      status: "deployed",
      extra_args: ["--max-model-len=1024"],
      fail_reason: "",
    });
  }, patient);
  expect((await running.stop()).failed).toEqual([]);
}, 240_000);

it("updates a single instance in place without spare capacity: callers wait or get 503, and no connection breaks", async () => {
  await put({ settings: { min_instances: 1, max_instances: 1 } });
  const empty = await vi.waitFor(async () => {
    expect(await record()).toMatchObject({ status: "deployed", instances: { running: 1, pending: 0 } });
    const { nodes } = (await stack.call("GET", "/v1/admin/nodes")).body;
    const found = nodes.filter((node: { instances: unknown[] }) => node.instances.length === 0);
    expect(found).toHaveLength(2);
    return found as { node_id: string }[];
  }, patient);
  for (const { node_id } of empty)
    expect((await stack.call("POST", `/v1/admin/nodes/${node_id}/cordon`, { note: "a test" })).status).toBe(200);
  const running = load(2);
  await vi.waitFor(() => expect(running.ends.length).toBeGreaterThan(0), patient);
  await put({ extra_args: ["--max-model-len=512"] });
  await vi.waitFor(async () => {
    const now = await record();
    expect(now).toMatchObject({ status: "deployed", rollout: { up_to_date: 1, outdated: 0 }, update_error: "" });
    expect(now.extra_args).toEqual(["--max-model-len=512"]);
  }, patient);
  const { failed } = await running.stop();
  expect(failed.filter((end) => !end.startsWith("503 "))).toEqual([]);
  expect((await post({ max_tokens: 2 })).status).toBe(200);
}, 240_000);
