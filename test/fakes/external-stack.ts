// Control planes and one agent in front of the fake engine, which runs in the test's own process: requests of known token
// counts at a known price, without a model server to load.
import { expect, vi } from "vitest";
import { type FakeEngine, type FakeEngineOptions, startFakeEngine } from "./engine.ts";
import { type Stack, type StackOptions, startStack } from "./processes.ts";

export interface ExternalStack {
  readonly stack: Stack;
  readonly engine: FakeEngine;
  readonly model: string;
  readonly deployId: string;
  stop(): Promise<void>;
}

export interface ExternalStackOptions extends StackOptions {
  readonly engine?: FakeEngineOptions;
  readonly maxBatchSize?: number;
  /** USD per million tokens. */
  readonly pricing?: { readonly input: number; readonly cached_input: number; readonly output: number };
}

export async function startExternalStack(options: ExternalStackOptions = {}): Promise<ExternalStack> {
  const model = "fake/model";
  const engine = await startFakeEngine({ models: [model], ...options.engine });
  let stack: Stack;
  try {
    stack = await startStack({ agents: 1, ...options });
  } catch (error) {
    await engine.close();
    throw error;
  }
  const stop = async () => {
    await stack.stop();
    await engine.close();
  };
  try {
    const made = await stack.call("POST", "/v1/admin/external", {
      name: model,
      url: engine.origin,
      max_batch_size: options.maxBatchSize ?? 64,
    });
    const deployId = made.body.deploy_id as string;
    const offered = await stack.call("PUT", `/v1/admin/models/${model}`, {
      deploy_id: deployId,
      description: "",
      pricing: options.pricing ?? { input: 0, cached_input: 0, output: 20 },
    });
    expect(offered.status, JSON.stringify(offered.body)).toBe(200);
    for (const at of stack.controlPlanes) {
      await vi.waitFor(
        async () => {
          const body = { model, prompt: "hello", max_tokens: 1 };
          const { status } = await stack.call("POST", "/v1/completions", body, {}, at);
          expect(status).toBe(200);
        },
        { timeout: 60_000, interval: 200 },
      );
    }
    return { stack, engine, model, deployId, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
