// A language model with its layers on a GPU.
import { describe, expect, it } from "vitest";
import { hasModel, startRuntime } from "../e2e/runtime/runtime-process.ts";
import { computeProcesses, hasGpu } from "./gpu.ts";

const promise = "layers of a language model on a GPU";
const isHere = hasGpu(promise) && hasModel(promise);

describe.runIf(isHere)("a language model with a GPU", () => {
  it("has its layers there, by the driver's own count, and answers", async () => {
    const runtime = await startRuntime({ STOKER_GPU_LAYERS: "auto", STOKER_MAX_BATCH_SIZE: "4" });
    try {
      expect(["cuda", "vulkan"]).toContain((await runtime.get("/health")).body.provider);
      expect(computeProcesses()).toContain(runtime.child.pid);
      const request = { model: "m", prompt: "Once upon a time", temperature: 0, max_tokens: 16, ignore_eos: true };
      const { body } = await runtime.post("/v1/completions", request);
      expect(body.usage.completion_tokens).toBe(16);
      expect(String((await runtime.get("/metrics")).body)).toMatch(/stoker_runtime_gpu_memory_bytes\{[^}]*\} [1-9]/);
    } finally {
      await runtime.stop();
    }
  });
});
