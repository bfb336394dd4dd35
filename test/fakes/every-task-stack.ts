// A control plane and an agent in front of the engine of every task, with one model of each.
import { expect, vi } from "vitest";
import { type EveryTaskEngine, startEveryTaskEngine } from "./every-task-engine.ts";
import { type Stack, type StackOptions, startStack } from "./processes.ts";

const models = {
  CHAT: ["fake/chat", "text-generation"],
  VECTORS: ["fake/vectors", "embeddings"],
  SPEECH: ["fake/speech", "text-to-speech"],
  HEARING: ["fake/hearing", "automatic-speech-recognition"],
  PICTURES: ["fake/pictures", "text-to-image"],
  RANKING: ["fake/ranking", "reranker"],
} as const;
export const names = Object.fromEntries(Object.entries(models).map(([key, [name]]) => [key, name])) as Record<
  keyof typeof models,
  string
>;

export interface EveryTaskStack {
  readonly engine: EveryTaskEngine;
  readonly stack: Stack;
  /** Deployments by the names of their models. */
  readonly deploys: Readonly<Record<string, string>>;
  stop(): Promise<void>;
}

export async function startEveryTaskStack(options: StackOptions = {}): Promise<EveryTaskStack> {
  const engine = await startEveryTaskEngine(Object.values(names));
  let stack: Stack | undefined;
  const stop = async () => {
    await stack?.stop();
    await engine.close();
  };
  try {
    // Nothing is searched for on a hub.
    stack = await startStack({
      agents: 1,
      ...options,
      controlPlaneEnv: { HF_HUB_OFFLINE: "1", ...options.controlPlaneEnv },
      agentEnv: { HF_ENDPOINT: "http://127.0.0.1:1", ...options.agentEnv },
    });
    const deploys = await offerModels(stack, engine);
    return { engine, stack, deploys, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function offerModels(stack: Stack, engine: EveryTaskEngine): Promise<Record<string, string>> {
  const deploys: Record<string, string> = {};
  for (const [name, task] of Object.values(models)) {
    const made = await stack.call("POST", "/v1/admin/external", { name, task, url: engine.origin });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    deploys[name] = made.body.deploy_id;
    const output = name === names.CHAT ? 20 : 0;
    const offer = { deploy_id: made.body.deploy_id, pricing: { input: 0, cached_input: 0, output } };
    const offered = await stack.call("PUT", `/v1/admin/models/${name}`, offer);
    expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  }
  // Each of them is served when its path replies.
  await vi.waitFor(
    async () => {
      for (const model of Object.values(names)) {
        const { status } = await stack.call("POST", "/v1/completions", { model, prompt: "x", max_tokens: 1 });
        expect(status, model).toBe(200);
      }
    },
    { timeout: 60_000, interval: 200 },
  );
  return deploys;
}
