import { describe, expect, it } from "vitest";
import type { Deployment } from "../../../../control-plane/deployments/deployment.ts";
import { checkExtraArgs } from "../../../../control-plane/deployments/extra-args.ts";
import {
  checkStandardArgs,
  ownArgs,
  readStandardArgs,
  standardAsArgs,
  withStandardArgs,
  writeStandardArgs,
} from "../../../../control-plane/deployments/standard-args.ts";

const wire = {
  max_context_size: 4096,
  max_concurrent_requests: 32,
  max_images_per_prompt: 2,
  gpu_memory_fraction: 0.97,
  max_prefill_tokens: 8192,
  kv_cache_dtype: "fp8",
  enable_prefix_caching: false,
  quantization: "awq",
};
const all = readStandardArgs(wire);

describe("standard_args", () => {
  it("are translated to arguments that each engine accepts", () => {
    const { maxImagesPerPrompt: _, ...noImages } = all;
    const said = { vllm: standardAsArgs(all, "vllm"), sglang: standardAsArgs(noImages, "sglang") };
    expect(said.vllm).toEqual([
      "--max-model-len=4096",
      '--limit-mm-per-prompt={"image":2}',
      "--gpu-memory-utilization=0.97",
      "--max-num-batched-tokens=8192",
      "--kv-cache-dtype=fp8",
      "--no-enable-prefix-caching",
      "--quantization=awq",
    ]);
    expect(said.sglang).toEqual([
      "--context-length=4096",
      "--mem-fraction-static=0.97",
      "--max-prefill-tokens=8192",
      "--kv-cache-dtype=fp8_e4m3",
      "--disable-radix-cache",
      "--quantization=awq",
    ]);
    for (const [engine, args] of Object.entries(said))
      expect(checkExtraArgs(args, { engine: engine as "vllm" })).toEqual(args);
    const gguf = {
      maxContextSize: 4096,
      maxPrefillTokens: 512,
      kvCacheDtype: "fp8",
      enablePrefixCaching: false,
    } as const;
    const llama = standardAsArgs(gguf, "llamacpp");
    expect(llama).toEqual([
      "--max-model-len=4096",
      "--batch-size=512",
      "--cache-type-k=q8_0",
      "--cache-type-v=q8_0",
      "--no-cache-prompt",
    ]);
    expect(checkExtraArgs(llama, { engine: "llamacpp" })).toEqual(llama);
    const own = standardAsArgs({ maxContextSize: 4096, kvCacheDtype: "fp8", enablePrefixCaching: true }, "stoker");
    expect(checkExtraArgs(own, { engine: "stoker" })).toEqual(["--max-model-len=4096", "--kv-cache-dtype=q8_0"]);
  });

  it.each([
    ["stoker", { gpuMemoryFraction: 0.9 }, "gpu_memory_fraction"],
    ["stoker", { enablePrefixCaching: false }, "enable_prefix_caching"],
    ["sglang", { maxImagesPerPrompt: 2 }, "max_images_per_prompt"],
    ["llamacpp", { gpuMemoryFraction: 0.9 }, "gpu_memory_fraction"],
    ["llamacpp", { maxPrefillTokens: 65_537 }, "max_prefill_tokens must be at most 65536"],
    ["custom", { quantization: "awq" }, "quantization"],
  ] as const)("of %s that it does not support are refused by name: %o", (engine, args, name) => {
    expect(() => standardAsArgs(args, engine as Deployment["engine"])).toThrow(
      expect.objectContaining({ code: "invalid_deployment" }),
    );
    expect(() => standardAsArgs(args, engine as Deployment["engine"])).toThrow(name);
  });

  it("of ONNX graphs are refused if they would have no effect, and stored ones stay", () => {
    const graphs = { engine: "stoker", format: "onnx" } as const;
    expect(() => checkStandardArgs({ maxContextSize: 4096 }, graphs)).toThrow(/max_context_size has no effect.*ONNX/);
    checkStandardArgs({ maxContextSize: 4096, maxConcurrentRequests: 4 }, graphs, { maxContextSize: 4096 });
    checkStandardArgs({ maxContextSize: 4096 }, { engine: "stoker", format: "gguf" });
  });

  it("combine with extra_args, never conflict with them, and each is returned as given", () => {
    const extraArgs = withStandardArgs(["--dtype=bfloat16"], all, "vllm");
    expect(ownArgs({ extraArgs, standardArgs: all, engine: "vllm" })).toEqual(["--dtype=bfloat16"]);
    expect(writeStandardArgs(all)).toEqual(wire);
    expect(() => withStandardArgs(["--max-model-len=1"], all, "vllm")).toThrow(
      /--max-model-len.*also set in extra_args/,
    );
    expect(readStandardArgs({ max_context_size: null })).toEqual({});
  });
});
