// The smallest real language model, fetched once into .cache/.
import { execFile } from "node:child_process";
import { realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

export const realModel = "HuggingFaceTB/SmolLM2-135M-Instruct";

/** Its file, by a path that the engine can mount. */
export async function realWeights(): Promise<string> {
  const root = join(import.meta.dirname, "../..");
  const models = join(root, ".cache/models");
  const file = join(models, "SmolLM2-135M-Instruct.Q4_1.gguf");
  if (!statSync(file, { throwIfNoEntry: false })) {
    const script = join(root, "scripts/fetch-model.ts");
    await promisify(execFile)(process.execPath, [script, "smollm2-135m", "--to", models]);
  }
  return realpathSync(file);
}
