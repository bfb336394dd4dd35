// Checks formatting, lint, types, unused code and generated files. Each counts as one test.
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root, runNode } from "./run-tool.ts";
import type { SuiteResult } from "./vitest-suite.ts";

const limitMs = 300_000;
/** Biome ignores NO_COLOR. */
const plain = process.stdout.isTTY ? [] : ["--colors=off"];
const bin = (path: string): string => join(root, "node_modules", path);

const checks: readonly { readonly title: string; readonly passes: () => Promise<boolean> }[] = [
  { title: "biome ci", passes: () => succeeds([bin("@biomejs/biome/bin/biome"), "ci", ".", ...plain]) },
  { title: "tsc --noEmit", passes: () => succeeds([bin("typescript/bin/tsc"), "--noEmit"]) },
  {
    title: "tsc --noEmit -p console",
    passes: () => succeeds([bin("typescript/bin/tsc"), "--noEmit", "-p", "console"]),
  },
  { title: "knip", passes: () => succeeds([bin("knip/bin/knip.js")]) },
  { title: "npm run generate changes nothing", passes: generatedFilesAreFresh },
];

export async function runChecks(): Promise<SuiteResult> {
  const startedMs = performance.now();
  let failed = 0;
  for (const { title, passes } of checks) {
    console.log(`--- ${title}`);
    if (!(await passes())) {
      failed += 1;
      console.log(`FAILED: ${title}`);
    }
  }
  return { name: "check", passed: checks.length - failed, failed, skipped: 0, ms: performance.now() - startedMs };
}

async function succeeds(args: readonly string[]): Promise<boolean> {
  return (await runNode(args, limitMs)) === 0;
}

/** Compares before and after, so that it also works with uncommitted changes. */
async function generatedFilesAreFresh(): Promise<boolean> {
  const before = fingerprint();
  for (const generator of generators()) {
    if (!existsSync(join(root, generator))) {
      console.log(`${generator} is missing`);
      return false;
    }
    if (!(await succeeds([generator]))) return false;
  }
  const after = fingerprint();
  const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
    (path) => before.get(path) !== after.get(path),
  );
  if (changed.length > 0) console.log(`Generated files were stale; commit them: ${changed.join(", ")}`);
  return changed.length === 0;
}

/** The scripts that `npm run generate` runs one after another. */
function generators(): readonly string[] {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return String(scripts.generate)
    .split(" && ")
    .map((command) => command.replace(/^node /, ""));
}

function fingerprint(): Map<string, string> {
  const files = globSync(["proto/gen/**/*.ts", "docs/openapi.json"], { cwd: root });
  return new Map(
    files.map((path) => [
      path,
      createHash("sha256")
        .update(readFileSync(join(root, path)))
        .digest("hex"),
    ]),
  );
}
