// Formatting, lint, types, unused code, and generated files that are what the sources generate. One count each.
import { createHash } from "node:crypto";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { SuiteResult } from "./result.ts";
import { root, runNode } from "./run-tool.ts";

const limitMs = 300_000;
/** Biome colours its output whatever NO_COLOR says. */
const plain = process.stdout.isTTY ? [] : ["--colors=off"];
const bin = (path: string): string => join(root, "node_modules", path);

const checks: readonly { readonly title: string; readonly passes: () => Promise<boolean> }[] = [
  { title: "biome ci", passes: () => exitsWell([bin("@biomejs/biome/bin/biome"), "ci", ".", ...plain]) },
  { title: "tsc --noEmit", passes: () => exitsWell([bin("typescript/bin/tsc"), "--noEmit"]) },
  {
    title: "tsc --noEmit -p console",
    passes: () => exitsWell([bin("typescript/bin/tsc"), "--noEmit", "-p", "console"]),
  },
  { title: "knip", passes: () => exitsWell([bin("knip/bin/knip.js")]) },
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

async function exitsWell(args: readonly string[]): Promise<boolean> {
  return (await runNode(args, limitMs)) === 0;
}

/** Compares before and after instead of asking git, so that it also holds in a tree with changes not yet committed. */
async function generatedFilesAreFresh(): Promise<boolean> {
  const before = fingerprint();
  for (const generator of ["scripts/generate-proto.ts", "scripts/openapi.ts"]) {
    if (!existsSync(join(root, generator))) {
      console.log(`${generator} is missing`);
      return false;
    }
    if (!(await exitsWell([generator]))) return false;
  }
  const after = fingerprint();
  const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
    (path) => before.get(path) !== after.get(path),
  );
  if (changed.length > 0) console.log(`Generated files were stale; commit them: ${changed.join(", ")}`);
  return changed.length === 0;
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
