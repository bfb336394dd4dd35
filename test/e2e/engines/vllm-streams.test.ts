// Resumable streams of a real vLLM whose agent, or which itself, is killed in the middle of them.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type FakeHub, startHub } from "../../fakes/hub.ts";
import { endInstances, instancePids, type Stack, startStack } from "../../fakes/processes.ts";
import { readResumed, textOf } from "../../fakes/resuming-client.ts";
import { patient, startLimitMs } from "../../fakes/vllm-instance.ts";
import { safetensorsOf, vllmEnv, vllmProgram } from "../../fakes/vllm-program.ts";
import { hasModel, modelFile } from "../runtime/runtime-process.ts";
import { ledgerFacts, usageOf } from "../spine/database.ts";

const promise = "resumable streams of a real vLLM";
const program = vllmProgram(promise);
const model = "org/served";
const tokens = 100;
const topics = ["a lighthouse", "a fox in the snow", "a lost key", "an old train"];

describe.runIf(program !== undefined && hasModel(promise))("a resumable stream of vLLM", () => {
  const weights = mkdtempSync(join(tmpdir(), "stoker-vllm-weights-"));
  let stack: Stack;
  let hub: FakeHub;

  beforeAll(async () => {
    const folder = await safetensorsOf(modelFile);
    const files = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
    hub = await startHub({ repo: model, files });
    stack = await startStack({
      agentEnv: {
        ...vllmEnv,
        HF_HUB_OFFLINE: "0",
        HF_ENDPOINT: hub.url,
        STOKER_MODELS_DIR: weights,
        STOKER_VLLM_BIN: program ?? "",
        // Its processes need more than a usual slot of this host.
        STOKER_GPUS: "1",
        STOKER_GPU_MEMORY_BYTES: String(4 * 1024 ** 3),
      },
      controlPlaneEnv: { HF_ENDPOINT: hub.url },
    });
    const made = await stack.call("POST", "/deploy/llm", {
      model_name: model,
      gpu: "other",
      engine: "vllm",
      max_batch_size: topics.length,
      hf: { repo: model },
      standard_args: { max_context_size: 1024 },
    });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    const id = made.body.deploy_id;
    const status = await vi.waitFor(
      async () => {
        const { body } = await stack.call("GET", `/deploy/${id}`);
        expect(["deployed", "failed"], JSON.stringify(body)).toContain(body.status);
        return body;
      },
      { timeout: startLimitMs, interval: 1_000 },
    );
    expect(status.status, status.fail_reason).toBe("deployed");
    const pricing = { input: 0.02, cached_input: 0.01, output: 0.04 };
    await stack.call("PUT", `/v1/admin/models/${model}`, { deploy_id: id, description: "", pricing });
  }, startLimitMs + 120_000);
  afterAll(async () => {
    await stack?.stop();
    await hub?.close();
    rmSync(weights, { recursive: true, force: true });
  });

  const ask = (topic: string, onEvent: () => void = () => {}) =>
    readResumed({
      urls: [stack.url],
      path: "/v1/chat/completions",
      headers: { authorization: `Bearer ${stack.apiKey}` },
      body: {
        model,
        messages: [{ role: "user", content: `Write a story about ${topic}.` }],
        max_tokens: tokens,
        temperature: 0,
        ignore_eos: true,
        stream: true,
      },
      onEvent,
      pauseMs: 500,
      maxReconnects: 2_000,
    });

  const killed: Readonly<Record<string, () => Promise<void>>> = {
    "its agent": async () => {
      await stack.agents[0]?.kill9();
      stack.agents[0]?.start();
    },
    vLLM: async () => endInstances(stack.agentFolder(1)),
  };

  async function isBilledOnce(requestId: string): Promise<void> {
    await vi.waitFor(async () => {
      const attempts = await usageOf(stack.databaseUrl, requestId);
      const charged = attempts.filter(({ charge }) => charge > 0);
      expect(charged.map(({ output_tokens }) => output_tokens)).toEqual([tokens]);
      expect(attempts.at(-1)?.attempt).toBeGreaterThan(1);
    }, patient);
    expect(await ledgerFacts(stack.databaseUrl)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
  }

  it.each(Object.keys(killed))(
    "has the text of an unbroken one, and is billed once, after %s was killed",
    async (victim) => {
      const [topic = ""] = topics;
      const unbroken = textOf((await ask(topic)).events);
      const before = instancePids(stack.agentFolder(1));
      let seen = 0;
      let kill: Promise<void> | undefined;
      const broken = await ask(topic, () => {
        seen += 1;
        if (seen === 40) kill = killed[victim]?.();
      });
      await kill;
      expect(textOf(broken.events)).toBe(unbroken);
      // An agent adopts the engine; an engine is started again.
      const after = instancePids(stack.agentFolder(1));
      if (victim === "vLLM") expect(after).not.toEqual(before);
      else expect(after).toEqual(before);
      await isBilledOnce(broken.requestId);
    },
    startLimitMs + 300_000,
  );

  it(
    "beside others has the text that it has alone, and is billed once, after vLLM was killed",
    async () => {
      const alone: string[] = [];
      for (const topic of topics) alone.push(textOf((await ask(topic)).events));
      let waiting = topics.length;
      const underWay = Promise.withResolvers<void>();
      const streams = topics.map((topic) => {
        let seen = 0;
        return ask(topic, () => {
          seen += 1;
          if (seen === 40 && --waiting === 0) underWay.resolve();
        });
      });
      await underWay.promise;
      await killed["vLLM"]?.();
      const ended = await Promise.all(streams);
      expect(ended.map(({ events }) => textOf(events))).toEqual(alone);
      for (const { requestId } of ended) await isBilledOnce(requestId);
    },
    startLimitMs + 600_000,
  );
});
