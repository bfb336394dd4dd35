// The real model under a stack of real processes, deployed by the product's own API.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, vi } from "vitest";
import type { Stack } from "../../fakes/processes.ts";

const file =
  process.env["STOKER_TEST_MODEL"] ??
  join(import.meta.dirname, "../../../.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf");

/** Says loudly what stays unproven where the weights are missing. */
export function hasRealModel(promise: string): boolean {
  if (existsSync(file)) return true;
  process.stderr.write(`\nNOT PROVEN: ${promise}: no weights at ${file} (run ./scripts/test, which fetches them)\n`);
  return false;
}

export const demoModel = "HuggingFaceTB/SmolLM2-135M-Instruct";

/** Deploys SmolLM2, waits until it is deployed, offers it to every account by tokens; returns its deploy id. */
export async function deploySmolLM(stack: Stack, maxBatchSize = 4, more: object = {}): Promise<string> {
  const made = await stack.call("POST", "/deploy/llm", {
    model_name: demoModel,
    gpu: "other",
    max_batch_size: maxBatchSize,
    hf: { repo: demoModel },
    ...more,
  });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  const id = made.body.deploy_id as string;
  let status = "";
  while (status !== "deployed") {
    status = await vi.waitFor(
      async () => {
        const record = (await stack.call("GET", `/deploy/${id}`)).body;
        expect(["deployed", "failed"]).toContain(record.status);
        return record.status as string;
      },
      { timeout: 150_000, interval: 300 },
    );
    if (status === "failed")
      throw new Error(`deploy failed: ${(await stack.call("GET", `/deploy/${id}`)).body.fail_reason}`);
  }
  const offered = await stack.call("PUT", `/v1/admin/models/${demoModel}`, {
    deploy_id: id,
    description: "test",
    pricing: { input: 0.02, cached_input: 0.01, output: 0.04 },
  });
  expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  return id;
}
