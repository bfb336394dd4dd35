// Runs the suites one after another and goes on after a failure. Usage: scripts/test [suite ...]
// Ends with the line `N passed, N failed`; the exit code is 1 when anything failed.
import { join } from "node:path";
import { runChecks } from "./suites/checks.ts";
import { findOrStartEngine } from "./suites/docker-engine.ts";
import { type SuiteResult, table, totals } from "./suites/result.ts";
import { root, runNode } from "./suites/run-tool.ts";
import { runVitest } from "./suites/vitest-suite.ts";

const suites = ["check", "unit", "contract", "architecture", "integration", "conformance", "e2e", "docker", "chaos"];
const needModel = new Set(["integration", "conformance", "e2e", "docker", "chaos"]);
const notProven = "serving, create, adopt, out-of-memory kill, stop and logs on a real Docker engine";

const named = process.argv.slice(2);
const unknown = named.filter((name) => !suites.includes(name));
if (unknown.length > 0) {
  process.stderr.write(`scripts/test: no suite ${unknown.join(", ")}; there are ${suites.join(", ")}.\n`);
  process.exit(2);
}
const chosen = named.length > 0 ? suites.filter((name) => named.includes(name)) : suites;

const results: SuiteResult[] = [];
if (chosen.some((name) => needModel.has(name))) {
  const fetched = await fetchModels(["smollm2-135m", ...(chosen.includes("e2e") ? ["piper-joe", "kokoro-82m"] : [])]);
  if (fetched.remark) console.log(`test models: ${fetched.remark}`);
  if (fetched.failed + fetched.skipped > 0) results.push(fetched);
}
for (const name of chosen) {
  console.log(`\n=== ${name}`);
  const result = name === "check" ? await runChecks() : name === "docker" ? await runDocker() : await runProject(name);
  const { passed, failed, skipped, ms, remark } = result;
  console.log(`${name}: ${passed} passed, ${failed} failed, ${skipped} skipped in ${(ms / 1000).toFixed(1)} s`);
  if (remark) console.log(`${name}: ${remark}`);
  results.push(result);
}

const { passed, failed } = totals(results);
console.log(`\n${table(results)}\n\n${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);

/** Once per clone; tests with real weights read them from `.cache/models`. */
async function fetchModels(keys: readonly string[]): Promise<SuiteResult> {
  const startedMs = performance.now();
  console.log("=== test models (fetched once)");
  const missing: string[] = [];
  for (const key of keys) if (!(await fetchModel(key))) missing.push(key);
  const ms = performance.now() - startedMs;
  // Without the language model most of what follows proves nothing; without another one its own tests say so and are skipped.
  const failed = missing.includes("smollm2-135m") ? 1 : 0;
  const remark =
    missing.length > 0 ? `not fetched, so not proven on its real weights: ${missing.join(", ")}` : undefined;
  return { name: "test models", passed: 0, failed, skipped: missing.length - failed, ms, ...(remark && { remark }) };
}

/** The index may be slow for a moment: three times. What is there already is found at once. */
async function fetchModel(key: string): Promise<boolean> {
  const args = [join(root, "scripts/fetch-model.ts"), key, "--to", join(root, ".cache/models")];
  for (let attempt = 1; attempt <= 3; attempt++) if ((await runNode(args, 30 * 60_000)) === 0) return true;
  return false;
}

function runProject(name: string): Promise<SuiteResult> {
  return runVitest(name, ["--project", name, "--passWithNoTests"]);
}

async function runDocker(): Promise<SuiteResult> {
  const startedMs = performance.now();
  const engine = await findOrStartEngine();
  if (!engine.ok) {
    console.log(`Not run: ${engine.reason}`);
    const remark = `not run; not proven: ${notProven}`;
    return { name: "docker", passed: 0, failed: 0, skipped: 0, ms: performance.now() - startedMs, remark };
  }
  try {
    return await runProject("docker");
  } finally {
    await engine.stop();
  }
}
