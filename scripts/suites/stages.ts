// Order of the suites.
import type { Suite } from "./arguments.ts";
import { importDistances, readSources } from "./changed-tests.ts";
import { nightlyOnly, pathOfTest } from "./nightly-only.ts";

/** The suites of a lane and the stages run sequentially. The lanes of a stage run in parallel. */
type Stage = readonly (readonly Suite[])[];

const stages: readonly Stage[] = [
  // Writes generated files that all other suites read.
  [["check"]],
  // The docker suite changes networks, which makes Chromium cancel requests: must not run together with browser tests.
  [["docker", "unit", "architecture", "contract"], ["e2e"]],
  [["integration"], ["chaos", "security", "conformance"]],
];

/** Stages reduced to the chosen suites. */
export function stagesOf(chosen: readonly Suite[]): readonly Stage[] {
  return stages
    .map((lanes) =>
      lanes.map((lane) => lane.filter((suite) => chosen.includes(suite))).filter((lane) => lane.length > 0),
    )
    .filter((lanes) => lanes.length > 0);
}

/** Tests of the nightly run: those with a longer nightly variant, and those that run only then. Sorted, each once. */
export function nightlyFiles(root: string): readonly string[] {
  const only = Object.keys(nightlyOnly).map(pathOfTest);
  return [...new Set([...testsThatImport(root, "test/fakes/nightly.ts"), ...only])].toSorted();
}

/** Tests that import a file, directly or indirectly: sorted paths relative to `root`. */
export function testsThatImport(root: string, file: string): readonly string[] {
  const found = importDistances(readSources(root, "test/**/*.ts"), [file]).keys();
  return [...found].filter((path) => path.endsWith(".test.ts")).toSorted();
}
