// The paths of sleep on the real server: its weights stay mapped, everything else is given up and made again.
import { readFileSync, realpathSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasModel, modelFile, type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const mib = 1024 * 1024;
/** Memory of a process that sleeps, as placement grants it. */
const grantedBytes = 256 * mib;

describe.runIf(hasModel("a model sleeps with its weights mapped and generates the same afterwards"))("sleep", () => {
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    runtime = await startRuntime({ STOKER_MAX_BATCH_SIZE: "8", STOKER_CONTEXT_LENGTH: "4096" });
  });
  afterAll(() => runtime?.stop());

  const post = (path: string, body: object = {}) =>
    fetch(runtime.url + path, { method: "POST", body: JSON.stringify(body) });
  const anonBytes = () =>
    Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${runtime.child.pid}/status`, "utf8"))?.[1]) * 1024;
  const isMapped = () => readFileSync(`/proc/${runtime.child.pid}/maps`, "utf8").includes(realpathSync(modelFile));
  async function complete() {
    const prompt = "The capital of France is";
    const answer = await post("/v1/completions", { model: "m", prompt, max_tokens: 12, temperature: 0 });
    expect(answer.status).toBe(200);
    return (await answer.json()) as { choices: { text: string }[]; usage: object };
  }

  it("keeps no contexts while it sleeps, and generates the same text after each wake", async () => {
    const first = await complete();
    expect(first.choices[0]?.text).toContain("Paris");
    for (let round = 0; round < 3; round++) {
      const awakeBytes = anonBytes();
      expect(await (await post("/sleep?level=1")).json()).toEqual({ is_sleeping: true });
      // Keys and values of eight sequences of 4,096 tokens are 720 MiB.
      expect(anonBytes()).toBeLessThan(awakeBytes - 400 * mib);
      expect(anonBytes()).toBeLessThan(grantedBytes);
      expect(isMapped()).toBe(true);
      expect((await post("/v1/completions", { model: "m", prompt: "x", max_tokens: 1 })).status).toBe(503);
      expect(await (await post("/wake_up")).json()).toEqual({ is_sleeping: false });
      expect((await complete()).choices).toEqual(first.choices);
    }
  });
});
