// Real weights and real processes: an idle model gives its memory up, and a request wakes it.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { instancePids, isAlive, type Stack, startStack } from "../../fakes/processes.ts";
import { demoModel, deploySmolLM, hasRealModel } from "../spine/model.ts";

const patient = { timeout: 60_000, interval: 100 };

describe.skipIf(!hasRealModel("sleep and wake with a real language model"))("a deployment that sleeps", () => {
  let stack: Stack;
  let id: string;

  beforeAll(async () => {
    stack = await startStack({ agentEnv: { STOKER_GPUS: "1", STOKER_MIN_AWAKE_SECONDS: "0" } });
    id = await deploySmolLM(stack, 2, { settings: { sleep_after_seconds: 1 } });
  });
  afterAll(() => stack?.stop());

  const record = async () => (await stack.call("GET", `/deploy/${id}`)).body;
  const phase = async () => (await record()).progress.phase;
  const asleep = () => vi.waitFor(async () => expect(await phase()).toBe("asleep"), patient);
  const anonBytes = (pid: number) =>
    Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
  const ask = (more: object = {}) =>
    fetch(`${stack.url}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: demoModel,
        prompt: "The capital of France is",
        max_tokens: 4,
        temperature: 0,
        ...more,
      }),
    });

  it("gives its memory up, stays deployed, and answers the next request from the same process", async () => {
    await asleep();
    const [pid] = instancePids(stack.agentFolder(1));
    const before = anonBytes(pid as number);
    expect(await record()).toMatchObject({ status: "deployed", instances: { running: 1, pending: 0 } });
    const startedMs = performance.now();
    const answer = await ask();
    expect(answer.status).toBe(200);
    const body = (await answer.json()) as { choices: { text: string }[] };
    expect(body.choices[0]?.text).toContain("Paris");
    process.stdout.write(`wake and answer: ${Math.round(performance.now() - startedMs)} ms\n`);
    expect(instancePids(stack.agentFolder(1))).toEqual([pid]);
    expect(anonBytes(pid as number)).toBeGreaterThan(before);
  });

  it("is started again when its engine is killed asleep, and serves the request that waits", async () => {
    await asleep();
    const [pid] = instancePids(stack.agentFolder(1)) as [number];
    process.kill(pid, "SIGKILL");
    const answer = await ask();
    expect(answer.status).toBe(200);
    expect(isAlive(pid)).toBe(false);
  });
});
