// Import graph of the sources.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Text of each file by its path relative to the root. */
export type Sources = ReadonlyMap<string, string>;

/** Imports of values. Type-only imports do not run. */
const imports = /(?:^|\n)(?:import|export)\s+(?!type\s)(?:[^;"]*?\sfrom\s+)?"(\.[^"]+)"|\bimport\("(\.[^"]+)"\)/g;

export function readSources(root: string, pattern: string): Sources {
  const paths = globSync(pattern, { cwd: root, exclude: ["**/node_modules"] });
  return new Map(paths.map((path) => [path, readFileSync(join(root, path), "utf8")]));
}

/** Number of imports from each file to the nearest of `targets`. Omits files that do not reach a target. */
export function importDistances(sources: Sources, targets: readonly string[]): ReadonlyMap<string, number> {
  const importers = new Map<string, string[]>();
  for (const [file, text] of sources)
    for (const [, from, dynamic] of text.matchAll(imports)) {
      const imported = join(dirname(file), from ?? dynamic ?? "");
      importers.set(imported, [...(importers.get(imported) ?? []), file]);
    }
  const found = new Map(targets.map((target) => [target, 0]));
  for (const [file, distance] of found)
    for (const importer of importers.get(file) ?? []) if (!found.has(importer)) found.set(importer, distance + 1);
  return found;
}
