// Two real agents whose model servers are the tiny runtime, one virtual GPU each, so that two instances mean two hosts.
import { join } from "node:path";
import { expect, vi } from "vitest";
import { type Stack, type StackOptions, startStack } from "../fakes/processes.ts";

const demoModel = "HuggingFaceTB/SmolLM2-135M-Instruct";

export async function startTinyStack(
  options: StackOptions & { readonly maxBatchSize?: number } = {},
): Promise<{ stack: Stack; model: string; deployId: string }> {
  const stack = await startStack({
    isDatabaseOnDisk: true,
    agents: 2,
    ...options,
    agentEnv: {
      STOKER_GPUS: "1",
      STOKER_RUNTIME_ENTRY: join(import.meta.dirname, "../fakes/tiny-runtime.ts"),
      ...options.agentEnv,
    },
  });
  const model = "admin/tiny";
  const made = await stack.call("POST", "/deploy/llm", {
    model_name: model,
    gpu: "other",
    max_batch_size: options.maxBatchSize ?? 4,
    hf: { repo: demoModel },
    settings: { min_instances: 2, max_instances: 2 },
  });
  const deployId = made.body.deploy_id as string;
  await vi.waitFor(
    async () => {
      const { body } = await stack.call("GET", `/deploy/${deployId}`);
      expect(body).toMatchObject({ status: "deployed", instances: { running: 2 } });
    },
    { timeout: 120_000, interval: 300 },
  );
  const offered = await stack.call("PUT", `/v1/admin/models/${model}`, {
    deploy_id: deployId,
    description: "",
    pricing: { input: 10, cached_input: 5, output: 20 },
  });
  expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  return { stack, model, deployId };
}
