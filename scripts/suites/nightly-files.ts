// Which tests stand on a file, themselves or through what they import.
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Those that have more to prove at night. */
export function nightlyFiles(root: string): readonly string[] {
  return testsThatImport(root, "test/fakes/nightly.ts");
}

/** Paths relative to `root`, in order, as is `asked`. */
export function testsThatImport(root: string, asked: string): readonly string[] {
  const importers = new Map<string, string[]>();
  for (const file of globSync("test/**/*.ts", { cwd: root }))
    for (const [, path = ""] of readFileSync(join(root, file), "utf8").matchAll(/from "(\.[^"]+)"/g)) {
      const imported = join(dirname(file), path);
      importers.set(imported, [...(importers.get(imported) ?? []), file]);
    }
  const found = new Set([asked]);
  for (const file of found) for (const importer of importers.get(file) ?? []) found.add(importer);
  return [...found].filter((file) => file.endsWith(".test.ts")).toSorted();
}
