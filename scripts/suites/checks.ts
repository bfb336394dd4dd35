// Checks formatting, lint, types, unused code and generated files. Each counts as one test.
import { appendFileSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root, runNode } from "./run-tool.ts";
import type { SuiteResult } from "./vitest-suite.ts";

const limitMs = 300_000;
/** Biome ignores NO_COLOR. */
const plain = process.stdout.isTTY ? [] : ["--colors=off"];
const bin = (path: string): string => join(root, "node_modules", path);

interface Output {
  /** Default: this terminal. */
  readonly file: string | undefined;
  say(line: string): void;
}

const tool = (path: string, ...args: readonly string[]) => {
  return (output: Output) => succeeds([bin(path), ...args], output);
};
const checks: readonly { readonly title: string; readonly passes: (output: Output) => Promise<boolean> }[] = [
  { title: "biome ci", passes: tool("@biomejs/biome/bin/biome", "ci", ".", ...plain) },
  { title: "tsc --noEmit", passes: tool("typescript/bin/tsc", "--noEmit") },
  { title: "tsc --noEmit -p console", passes: tool("typescript/bin/tsc", "--noEmit", "-p", "console") },
  { title: "knip", passes: tool("knip/bin/knip.js") },
  { title: "npm run generate changes nothing", passes: generatedFilesAreFresh },
];

/** `outputFile`: file for what it prints. Default: this terminal. */
export async function runChecks(outputFile?: string): Promise<SuiteResult> {
  const startedMs = performance.now();
  const output: Output = {
    file: outputFile,
    say: (line) => (outputFile === undefined ? console.log(line) : appendFileSync(outputFile, `${line}\n`)),
  };
  let failed = 0;
  for (const { title, passes } of checks) {
    output.say(`--- ${title}`);
    if (!(await passes(output))) {
      failed += 1;
      output.say(`FAILED: ${title}`);
    }
  }
  return { name: "check", passed: checks.length - failed, failed, skipped: 0, ms: performance.now() - startedMs };
}

async function succeeds(args: readonly string[], { file }: Output): Promise<boolean> {
  return (await runNode(args, limitMs, { outputFile: file })) === 0;
}

/** Generates into a folder of its own and compares, because other suites read the files of the tree at the same time. */
async function generatedFilesAreFresh(output: Output): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-generated-"));
  try {
    for (const generator of generators()) {
      if (!existsSync(join(root, generator))) {
        output.say(`${generator} is missing`);
        return false;
      }
      if (!(await succeeds([generator, folder], output))) return false;
    }
    const stale = staleFiles(folder);
    if (stale.length > 0) output.say(`Generated files are stale; run \`npm run generate\`: ${stale.join(", ")}`);
    return stale.length === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The scripts that `npm run generate` runs one after another. */
function generators(): readonly string[] {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return String(scripts.generate)
    .split(" && ")
    .map((command) => command.replace(/^node /, ""));
}

/** Paths of files that differ between the tree and `folder`, or that only one of them has. */
function staleFiles(folder: string): readonly string[] {
  const [fresh, present] = [folder, root].map((at) => {
    const files = globSync(["proto/gen/**/*.ts", "docs/openapi.json", "deploy/grafana/*.json"], { cwd: at });
    return new Map(files.map((path) => [path, readFileSync(join(at, path), "utf8")]));
  }) as [Map<string, string>, Map<string, string>];
  return [...new Set([...fresh.keys(), ...present.keys()])].filter((path) => fresh.get(path) !== present.get(path));
}
