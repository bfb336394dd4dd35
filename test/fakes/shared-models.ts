// The small real models that lie beside the checkout, where they do.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../..");
const places = [process.env["STOKER_TEST_MODELS"], join(root, "../shared/models"), join(root, "../../shared/models")];
const folder = places.find((place) => place !== undefined && existsSync(place));

/** The model's folder; undefined, said loudly, where it is missing. `promise`: what then stays unproven. */
export function sharedModel(name: string, promise: string): string | undefined {
  const found = folder === undefined ? undefined : join(folder, name);
  if (found !== undefined && existsSync(found)) return found;
  process.stderr.write(`\nNOT PROVEN: ${promise}: there is no ${name} in ../shared/models (set STOKER_TEST_MODELS)\n`);
  return undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: references are read field by field.
export function referenceOf(model: string): any {
  return JSON.parse(readFileSync(join(model, "reference.json"), "utf8"));
}
