// Ten models on a host with memory for two, with real weights and real processes.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { instancePids, type Stack, startStack } from "../../fakes/processes.ts";
import { demoModel, hasRealModel } from "../spine/model.ts";

const count = 10;
const awake = 2;
const requests = 30;
const names = Array.from({ length: count }, (_, index) => `admin/ten-${index}`);

describe.skipIf(!hasRealModel("ten models in the memory of two"))("ten models on a host with memory for two", () => {
  let stack: Stack;
  const ids: string[] = [];

  beforeAll(async () => {
    stack = await startStack({ agentEnv: { STOKER_GPUS: String(awake), STOKER_MIN_AWAKE_SECONDS: "0" } });
    for (const name of names) {
      const made = await stack.call("POST", "/deploy/llm", {
        model_name: name,
        gpu: "other",
        max_batch_size: 1,
        hf: { repo: demoModel },
        settings: { sleep_after_seconds: 3_600 },
      });
      expect(made.status, JSON.stringify(made.body)).toBe(200);
      ids.push(made.body.deploy_id);
    }
    await vi.waitFor(
      async () => {
        for (const one of await records()) expect(one.status, one.fail_reason).toBe("deployed");
      },
      { timeout: 280_000, interval: 500 },
    );
  }, 300_000);
  afterAll(() => stack?.stop());

  const records = async () => Promise.all(ids.map(async (id) => (await stack.call("GET", `/deploy/${id}`)).body));
  async function ask(name: string): Promise<number> {
    const startedMs = performance.now();
    const answer = await fetch(`${stack.url}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: name, prompt: "The capital of France is", max_tokens: 4, temperature: 0 }),
    });
    const body = (await answer.json()) as { choices?: { text: string }[] };
    expect(answer.status, JSON.stringify(body)).toBe(200);
    expect(body.choices?.[0]?.text).toContain("Paris");
    return performance.now() - startedMs;
  }

  it("serves requests in any order, never has more than two awake, and loses no process", {
    timeout: 400_000,
  }, async () => {
    const pids = instancePids(stack.agentFolder(1)).sort();
    expect(pids).toHaveLength(count);
    let seed = 3;
    const random = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed / 2 ** 31;
    };
    const woken: number[] = [];
    const served: number[] = [];
    for (let n = 0; n < requests; n++) {
      const at = Math.floor(random() * count);
      const { phase } = (await stack.call("GET", `/deploy/${ids[at]}`)).body.progress;
      (phase === "asleep" ? woken : served).push(await ask(names[at] as string));
      if (n % 8 === 0) {
        const phases = (await records()).map((one) => one.progress.phase);
        expect(phases.filter((one) => one === "ready").length).toBeLessThanOrEqual(awake);
      }
    }
    expect(instancePids(stack.agentFolder(1)).sort()).toEqual(pids);
    const at = (all: readonly number[], share: number) =>
      Math.round([...all].sort((a, b) => a - b)[Math.ceil(all.length * share) - 1] ?? 0);
    process.stdout.write(
      `${woken.length} of ${requests} requests woke a model: p50 ${at(woken, 0.5)} ms, p95 ${at(woken, 0.95)} ms until answered; ` +
        `awake: p50 ${at(served, 0.5)} ms\n`,
    );
  });

  it("serves one request of every model at a time in turns", { timeout: 400_000 }, async () => {
    const times = await Promise.all(names.map(ask));
    process.stdout.write(`ten at a time: slowest ${Math.round(Math.max(...times))} ms\n`);
  });
});
