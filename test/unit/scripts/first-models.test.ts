import { expect, test } from "vitest";
import { demoModels } from "../../../control-plane/catalog/demo-models.ts";
import { firstModelOf } from "../../../scripts/supervisor/first-models.ts";
import { readOptions } from "../../../scripts/supervisor/options.ts";

const namesOf = (flags: readonly string[], env = {}) =>
  readOptions(flags, env).models.map(({ modelName }) => modelName);
const smol = "HuggingFaceTB/SmolLM2-135M-Instruct";

test("finds every demo model by its short name, and models of the catalogue in any case", () => {
  for (const { key, modelName } of demoModels) expect(firstModelOf(key)?.modelName).toBe(modelName);
  expect(firstModelOf("QWEN/qwen3-0.6b")).toMatchObject({
    modelName: "Qwen/Qwen3-0.6B",
    repo: "Qwen/Qwen3-0.6B",
    cpuRepo: "Qwen/Qwen3-0.6B-GGUF",
    cpuContext: 4096,
  });
  expect(firstModelOf("nobody/nothing")).toBeUndefined();
});

test("offers a demo model at its whole price, also for images", () => {
  expect(firstModelOf("digits-diffusion")?.pricing).toMatchObject({
    input: 0,
    output: 0,
    image: 0.001,
    image_steps: 20,
  });
  expect(firstModelOf("smollm2-135m")?.pricing).toEqual({ input: 0.02, cached_input: 0.01, output: 0.04 });
});

test("deploys the small model by default, several in their order and each once, or none", () => {
  expect(namesOf([])).toEqual([smol]);
  const flags = ["piper-joe", "Qwen/Qwen3-0.6B", smol, "qwen/qwen3-0.6b"].flatMap((name) => ["--model", name]);
  expect(namesOf(flags)).toEqual(["rhasspy/piper-en_US-joe-medium", "Qwen/Qwen3-0.6B", smol]);
  expect(namesOf(["--model", "none"])).toEqual([]);
});

test("reads models from STOKER_MODEL, which the flag replaces", () => {
  const env = { STOKER_MODEL: "piper-joe,Qwen/Qwen3-0.6B" };
  expect(namesOf([], env)).toEqual(["rhasspy/piper-en_US-joe-medium", "Qwen/Qwen3-0.6B"]);
  expect(namesOf(["--model", "none"], env)).toEqual([]);
});
