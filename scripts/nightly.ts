// Runs the long tests with real sizes and clocks, and prints the results as a table for docs/NIGHTLY.md. Usage: npm run test:nightly [FILE ...]
// Continues after a failure. A signal stops the current file and skips the rest. The last line is `N passed, N failed`
// (tests and benches). Exit code: 1 after a failure, 130 when stopped.

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { root, runNode } from "./suites/run-tool.ts";
import { nightlyFiles, testsThatImport } from "./suites/schedule.ts";
import { runVitest, type SuiteResult, totals } from "./suites/vitest-suite.ts";

/** Those that need no hours and no programs of others: `growth`, `calibrate` and `peers` are run by hand. */
const benches = [
  "cores",
  "gateway",
  "agent",
  "money",
  "reports",
  "resumable",
  "routing",
  "hostile",
  "fleet",
  "sleep",
  "workers",
  "tracing",
  "runtime",
];
const benchLimitMs = 60 * 60_000;
const chosen = process.argv.length > 2 ? process.argv.slice(2) : nightlyFiles(root);
const stopping = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stopping.abort());

const clients = testsThatImport(root, "test/fakes/test-npm.ts");
if (chosen.some((file) => clients.includes(file))) await installTestNpm();
if (chosen.includes("test/integration/clients/every-client.test.ts"))
  for (const name of ["nightly-python", "nightly-python-aider", "nightly-python-openai-2"]) await installPython(name);
const withLlama = testsThatImport(root, "test/fakes/llama-server.ts");
if (chosen.some((file) => withLlama.includes(file))) await installPython("test-llama");
const goTools = {
  compose: ["test/docker/compose.test.ts"],
  cosign: ["test/docker/release.test.ts", "test/integration/scripts/cosign.test.ts"],
  kubernetes: testsThatImport(root, "test/fakes/kubernetes.ts"),
};
for (const [name, files] of Object.entries(goTools))
  if (chosen.some((file) => files.includes(file))) await buildGoTool(name);
const python = join(root, ".cache/test-python/bin/python3");
const usesOwnPython = process.env["STOKER_TEST_PYTHON"] !== undefined;
if (!usesOwnPython) await installPython("test-python");
const hasPython = !usesOwnPython && existsSync(python);
/** Pictures of all pages of the console. */
const screenshots = process.env["STOKER_SCREENSHOTS"] ?? join(root, ".cache/nightly/screenshots");
if (chosen.includes("test/integration/console/pages.test.ts")) rmSync(screenshots, { recursive: true, force: true });
const env = {
  STOKER_NIGHTLY: "1",
  STOKER_SCREENSHOTS: screenshots,
  ...(hasPython ? { STOKER_TEST_PYTHON: python } : {}),
};

const results: SuiteResult[] = [];
for (const [i, file] of chosen.entries()) {
  if (stopping.signal.aborted) break;
  console.log(`\n=== ${file} (${i + 1} of ${chosen.length})`);
  const result = await runVitest(file, [file], { env, stop: stopping.signal });
  const { passed, failed, skipped, ms } = result;
  if (stopping.signal.aborted) console.log(`${file}: stopped after ${seconds(ms)} s`);
  else {
    console.log(`${file}: ${passed} passed, ${failed} failed, ${skipped} skipped in ${seconds(ms)} s`);
    results.push(result);
  }
}

// Single files are run to mend them.
if (process.argv.length === 2) results.push(...(await runBenches()));

const memory = (totalmem() / 1024 ** 3).toFixed(0);
console.log(`\n${new Date().toISOString().slice(0, 10)}, ${cpus().length} cores, ${memory} GiB\n`);
const rows = results.map(
  ({ name, failed, ms }) => `| \`${name}\` | ${failed ? "FAILED" : "passed"} | ${seconds(ms)} |`,
);
console.log(["| file | result | seconds |", "| --- | --- | --- |", ...rows].join("\n"));
if (stopping.signal.aborted)
  console.log(`\nstopped: ${chosen.length - results.length} of ${chosen.length} files did not finish`);
const { passed, failed } = totals(results);
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(stopping.signal.aborted ? 130 : failed > 0 ? 1 : 0);

/** All benches, and whether a figure is worse than before by more than its runs scatter. */
async function runBenches(): Promise<readonly SuiteResult[]> {
  const done: SuiteResult[] = [];
  const steps = [...benches.map((name) => ["bench/main.ts", name]), ["scripts/report.ts", "--check"]];
  for (const args of steps) {
    if (stopping.signal.aborted) break;
    console.log(`\n=== ${args.join(" ")}`);
    const startedMs = performance.now();
    const code = await runNode(args, benchLimitMs, { stop: stopping.signal });
    const [passed, failed] = code === 0 ? [1, 0] : [0, 1];
    done.push({ name: args.join(" "), passed, failed, skipped: 0, ms: performance.now() - startedMs });
  }
  return done;
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(0);
}

/**
 * Installs the client libraries of scripts/test-npm.txt, which are too large for node_modules (1 GB). Failure only prints
 * a message; tests then report what they skip.
 */
async function installTestNpm(): Promise<void> {
  const home = join(root, ".cache/test-npm");
  const packages = readFileSync(join(root, "scripts/test-npm.txt"), "utf8");
  const installed = join(home, "installed.txt");
  if (textOf(installed) === packages) return;
  console.log(`Installing for the tests: ${packages.trim().replaceAll("\n", " ")}`);
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, "package.json"), '{ "private": true }\n');
  const flags = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--no-progress"];
  try {
    await promisify(execFile)("npm", ["install", ...flags, ...packages.split("\n").filter(Boolean)], {
      cwd: home,
      timeout: 10 * 60_000,
    });
    writeFileSync(installed, packages);
  } catch (error) {
    console.log(`Installation failed: ${(error as Error).message}`);
    rmSync(home, { recursive: true, force: true });
  }
}

/** Builds programs with Go. Failure only prints a message; tests then report what they skip. */
async function buildGoTool(name: string): Promise<void> {
  console.log(`Building for the tests: ${name}`);
  const script = join(root, "scripts/go-tools.sh");
  await promisify(execFile)("sh", [script, name], { timeout: 60 * 60_000, maxBuffer: 64 * 1024 * 1024 }).catch(
    (error) => console.log(`Build failed: ${(error as Error).message.slice(0, 500)}`),
  );
}

/**
 * Installs the packages of scripts/NAME.txt. Packages that need older versions of what the others use have a file of their own: aider, and
 * LlamaIndex and Instructor, which need OpenAI's client before 3.
 */
async function installPython(name: string): Promise<void> {
  const home = join(root, ".cache", name);
  const wanted = join(root, "scripts", `${name}.txt`);
  const packages = readFileSync(wanted, "utf8");
  const installed = join(home, "installed.txt");
  if (textOf(installed) === packages) return;
  console.log(`Installing for the tests: ${packages.trim().replaceAll("\n", " ")}`);
  rmSync(home, { recursive: true, force: true });
  const run = promisify(execFile);
  try {
    await run("python3", ["-m", "venv", home], { timeout: 5 * 60_000 });
    const flags = ["--quiet", "--no-compile", "--disable-pip-version-check"];
    await run(join(home, "bin/pip"), ["install", ...flags, "-r", wanted], { timeout: 20 * 60_000 });
    writeFileSync(installed, packages);
  } catch (error) {
    console.log(`Installation failed: ${(error as Error).message}`);
    rmSync(home, { recursive: true, force: true });
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
