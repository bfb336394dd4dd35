import { importDistances, readSources } from "./import-graph.ts";

/** Tests with a longer nightly variant. */
export function nightlyFiles(root: string): readonly string[] {
  return testsThatImport(root, "test/fakes/nightly.ts");
}

/** Tests that import a file, directly or indirectly: sorted paths relative to `root`. */
export function testsThatImport(root: string, file: string): readonly string[] {
  const found = importDistances(readSources(root, "test/**/*.ts"), [file]).keys();
  return [...found].filter((path) => path.endsWith(".test.ts")).toSorted();
}
