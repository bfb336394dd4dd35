// Which suites run at the same time.
import type { Suite } from "./arguments.ts";
import { importDistances, readSources } from "./changed-tests.ts";
import { nightlyOnly, pathOfTest } from "./nightly-only.ts";

/** Suites that run at the same time: three keep two processors busy, because most tests wait. */
export const lanes = 3;

/** Those that take longest are first, so that all lanes end at about the same time. */
const order: readonly Suite[] = [
  ...(["docker", "check", "e2e", "integration", "chaos", "security"] as const),
  ...(["contract", "unit", "conformance", "architecture"] as const),
];
const withBrowser: readonly Suite[] = ["integration", "security"];

/** The suite that starts next beside the running ones. Undefined: none until another has ended. */
export function nextSuite(waiting: readonly Suite[], running: readonly Suite[]): Suite | undefined {
  return order.find((suite) => waiting.includes(suite) && running.every((other) => runBeside(suite, other)));
}

function runBeside(a: Suite, b: Suite): boolean {
  const pair = [a, b];
  // The Docker suite changes networks, at which Chromium cancels requests.
  return !(pair.includes("docker") && withBrowser.some((suite) => pair.includes(suite)));
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
