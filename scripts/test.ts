// Runs test suites and continues after a failure. Usage: see scripts/test.
// The last line is `N passed, N failed`. Exit code 1 after a failure.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildConsole } from "./build-console.ts";
import { buildDocs } from "./build-docs.ts";
import { readArguments, type Suite, suites } from "./suites/arguments.ts";
import { affectedTests, changedFiles } from "./suites/changed-tests.ts";
import { runChecks } from "./suites/checks.ts";
import { findOrStartEngine } from "./suites/docker-engine.ts";
import { nightlyOnly, nightlyTests, provenAtNight } from "./suites/nightly-only.ts";
import { root, runNode } from "./suites/run-tool.ts";
import { lanes, nextSuite } from "./suites/schedule.ts";
import { runVitest, type SuiteResult, table, totals } from "./suites/vitest-suite.ts";

const needModel = new Set<string>(["integration", "conformance", "security", "e2e", "docker", "chaos"]);
const notTested = "serving, create, adopt, out-of-memory kill, stop and logs on a real Docker engine";
const startedMs = performance.now();

const request = readArguments(process.argv.slice(2));
if (request.kind === "wrong") {
  process.stderr.write(`scripts/test: ${request.why}\n`);
  process.exit(2);
}
await Promise.all([buildConsole(), buildDocs()]);
const results = request.kind === "suites" ? await runSuites(request.suites) : await runChanged(request.since);
const { passed, failed } = totals(results);
console.log(`\n${table(results)}\n\n${((performance.now() - startedMs) / 1000).toFixed(0)} s total`);
console.log(
  `${Object.keys(nightlyOnly).length} files run only in npm run test:nightly (scripts/suites/nightly-only.ts). Not proven here:`,
);
for (const line of provenAtNight({ ...nightlyOnly, ...nightlyTests })) console.log(`  ${line}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);

async function runSuites(chosen: readonly Suite[]): Promise<readonly SuiteResult[]> {
  const done: SuiteResult[] = [];
  await addModels(done, chosen);
  const waiting = new Set(chosen);
  const running = new Map<Suite, Promise<void>>();
  const freeLanes = Array.from({ length: Math.min(lanes, chosen.length) }, (_, number) => number);
  while (waiting.size + running.size > 0) {
    const suite = freeLanes.length > 0 ? nextSuite([...waiting], [...running.keys()]) : undefined;
    if (suite === undefined) {
      await Promise.race(running.values());
      continue;
    }
    waiting.delete(suite);
    const lane = freeLanes.shift() ?? 0;
    const run = async () => {
      done.push(chosen.length > 1 ? await runBuffered(suite, lane) : await runShown(suite));
      running.delete(suite);
      freeLanes.push(lane);
    };
    running.set(suite, run());
  }
  const names: readonly string[] = suites;
  const order = (result: SuiteResult): number => names.indexOf(result.name);
  return done.toSorted((a, b) => order(a) - order(b));
}

/** Runs the tests affected by an edit, suite by suite. */
async function runChanged(since: string | undefined): Promise<readonly SuiteResult[]> {
  const changed = changedFiles(root, since);
  const { run, left } = affectedTests(root, changed);
  const chosen = suites.filter((suite) => run.has(suite));
  const done: SuiteResult[] = [];
  await addModels(done, chosen);
  for (const suite of chosen) {
    console.log(`\n=== ${suite}`);
    done.push(report(await runSuite(suite, run.get(suite) ?? [])));
  }
  // Always runs, because it reads the whole tree.
  done.push(await runShown("architecture"));
  const rest = [...left].map(([suite, count]) => `${count} of ${suite}`).join(", ");
  console.log(`\n${changed.length} changed files.${rest && ` Affected test files beyond the time budget: ${rest}.`}`);
  return done;
}

async function runShown(suite: Suite): Promise<SuiteResult> {
  console.log(`\n=== ${suite}`);
  return report(await runSuite(suite, []));
}

/** Prints the output at the end, because another suite runs in parallel. */
async function runBuffered(suite: Suite, lane: number): Promise<SuiteResult> {
  const folder = mkdtempSync(join(tmpdir(), "stoker-test-output-"));
  const outputFile = join(folder, "output");
  try {
    const result = await runSuite(suite, [], lane, outputFile);
    console.log(`\n=== ${suite}\n${readFileSync(outputFile, { encoding: "utf8", flag: "a+" })}`);
    return report(result);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function report(result: SuiteResult): SuiteResult {
  const { name, passed, failed, skipped, ms, remark } = result;
  console.log(`${name}: ${passed} passed, ${failed} failed, ${skipped} skipped in ${(ms / 1000).toFixed(1)} s`);
  if (remark) console.log(`${name}: ${remark}`);
  return result;
}

function runSuite(suite: Suite, files: readonly string[], lane = 0, outputFile?: string): Promise<SuiteResult> {
  if (suite === "check") return runChecks(outputFile);
  // Vitest clears its module cache when packages change, so suites that run in parallel use separate caches. The suites of a lane
  // share one: they transform the same modules.
  const env = { VITEST_FS_MODULE_CACHE_PATH: join(root, ".cache/vitest", `lane-${lane}`) };
  const run = () => runVitest(suite, ["--project", suite, "--passWithNoTests", ...files], { env, outputFile });
  return suite === "docker" ? withEngine(run) : run();
}

async function withEngine(run: () => Promise<SuiteResult>): Promise<SuiteResult> {
  const startedMs = performance.now();
  const engine = await findOrStartEngine();
  if (!engine.ok) {
    console.log(`Not run: ${engine.reason}`);
    const remark = `not run; not tested: ${notTested}`;
    return { name: "docker", passed: 0, failed: 0, skipped: 0, ms: performance.now() - startedMs, remark };
  }
  try {
    return await run();
  } finally {
    await engine.stop();
  }
}

/** Fetches the models that these suites need. Adds a result only for missing ones. */
async function addModels(done: SuiteResult[], chosen: readonly string[]): Promise<void> {
  if (!chosen.some((name) => needModel.has(name))) return;
  const fetched = await fetchModels(["smollm2-135m", ...(chosen.includes("e2e") ? ["piper-joe", "kokoro-82m"] : [])]);
  if (fetched.remark) console.log(`test models: ${fetched.remark}`);
  if (fetched.failed + fetched.skipped > 0) done.push(fetched);
}

/** Once per clone; tests with real weights read them from `.cache/models`. */
async function fetchModels(keys: readonly string[]): Promise<SuiteResult> {
  const startedMs = performance.now();
  console.log("=== test models (fetched once)");
  const missing: string[] = [];
  for (const key of keys) if (!(await fetchModel(key))) missing.push(key);
  const ms = performance.now() - startedMs;
  // The language model is required. Tests of other missing models are skipped.
  const failed = missing.includes("smollm2-135m") ? 1 : 0;
  const remark = missing.length > 0 ? `not fetched, so not tested with real weights: ${missing.join(", ")}` : undefined;
  return { name: "test models", passed: 0, failed, skipped: missing.length - failed, ms, ...(remark && { remark }) };
}

/** Tries three times, because the index may be slow. */
async function fetchModel(key: string): Promise<boolean> {
  const args = [join(root, "scripts/fetch-model.ts"), key, "--to", join(root, ".cache/models")];
  for (let attempt = 1; attempt <= 3; attempt++) if ((await runNode(args, 30 * 60_000)) === 0) return true;
  return false;
}
