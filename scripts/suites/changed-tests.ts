// Selects tests affected by an edit, nearest first, within a time budget.
import { execFileSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { nightlyOnly, pathOfTest } from "./nightly-only.ts";

/** Average seconds per test file on two idle cores. Suites that are not listed never run here. */
const secondsPerFile: Readonly<Record<string, number>> = {
  unit: 0.1,
  contract: 0.7,
  integration: 2.5,
  security: 4,
  conformance: 6,
  chaos: 12,
  e2e: 12,
  docker: 25,
};
/** Seconds until the first test of a suite runs: its workers load the product, and `contract` starts two control planes. */
const startSeconds: Readonly<Record<string, number>> = { unit: 3, contract: 12, integration: 6, security: 6 };
const budgetSeconds = 45;
const suiteOf = (path: string): string => path.split("/")[1] ?? "";

interface ChosenTests {
  /** Paths by suite. */
  readonly run: ReadonlyMap<string, readonly string[]>;
  /** Number of affected files by suite that do not fit into the time. */
  readonly left: ReadonlyMap<string, number>;
}

/** Files that differ from `since`, and untracked files. */
export function changedFiles(root: string, since: string | undefined): readonly string[] {
  const git = (...args: string[]) => execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" });
  const base = since ?? forkPoint(git) ?? "HEAD";
  const listed = git("diff", "--name-only", base, "--") + git("ls-files", "--others", "--exclude-standard");
  return listed.split("\n").filter(Boolean);
}

/** Affected tests by imports. Does not find tests that run the changed code in another process. */
export function affectedTests(root: string, changed: readonly string[]): ChosenTests {
  const sources = readSources(
    root,
    "{proto,control-plane,agent,runtime,cli,console,scripts,bench,deploy,test}/**/*.{ts,tsx}",
  );
  const distances = importDistances(sources, changed);
  const tests = new Map([...distances].filter(([path]) => path.endsWith(".test.ts") && sources.has(path)));
  return chooseTests(tests, new Set(changed.map((path) => basename(dirname(path)))));
}

/**
 * Nearest tests that fit into the budget; of equally near ones first those in a folder with a name of `subjects`. Changed tests always
 * run, except those of the nightly run.
 */
export function chooseTests(
  distances: ReadonlyMap<string, number>,
  subjects: ReadonlySet<string> = new Set(),
): ChosenTests {
  const nightly = new Set(Object.keys(nightlyOnly).map(pathOfTest));
  const run = new Map<string, string[]>();
  const left = new Map<string, number>();
  let seconds = 0;
  const known = [...distances].flatMap(([path, distance]) => {
    const cost = secondsPerFile[suiteOf(path)];
    const isOther = Number(!subjects.has(basename(dirname(path))));
    return cost === undefined ? [] : [{ path, distance, cost, isOther }];
  });
  const byNearness = known.toSorted(
    (a, b) => a.distance - b.distance || a.isOther - b.isOther || a.cost - b.cost || (a.path < b.path ? -1 : 1),
  );
  for (const { path, distance, cost } of byNearness) {
    const suite = suiteOf(path);
    const chosen = run.get(suite);
    const more = cost + (chosen ? 0 : (startSeconds[suite] ?? 0));
    if (nightly.has(path) || (distance > 0 && seconds + more > budgetSeconds))
      left.set(suite, (left.get(suite) ?? 0) + 1);
    else {
      seconds += more;
      run.set(suite, [...(chosen ?? []), path]);
    }
  }
  return { run, left };
}

/** Merge base with main, or undefined without a main branch. */
function forkPoint(git: (...args: string[]) => string): string | undefined {
  for (const main of ["main", "origin/main"])
    try {
      return git("merge-base", main, "HEAD").trim();
    } catch {
      // Branch does not exist.
    }
  return undefined;
}

/** Text of each file by its path relative to the root. */
type Sources = ReadonlyMap<string, string>;

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
