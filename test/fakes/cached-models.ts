// Demo models that scripts/test puts together under .cache/models.
import { existsSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dirname, "../../.cache/models");

/** The model's folder; undefined, said loudly, where it is missing. `promise`: what then stays unproven. */
export function cachedModel(key: string, promise: string): string | undefined {
  const found = join(folder, key);
  if (existsSync(found)) return found;
  const how = `node scripts/fetch-model.ts ${key} --to .cache/models`;
  process.stderr.write(`\nNOT PROVEN: ${promise}: there is no ${key} in .cache/models (${how})\n`);
  return undefined;
}
