import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { addTests, origin, recordedFolder } from "../results/recorded.ts";
import { type RunOptions, root, runNode } from "./run-tool.ts";

/** Twenty seeds of chaos take 80 minutes on a busy machine. */
const limitMs = 120 * 60_000;

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests?: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
}

/** Runs a project (`--project`) or files and counts the tests of vitest's report. A file that fails to load counts as one failure. */
export async function runVitest(
  name: string,
  which: readonly string[],
  options: RunOptions = {},
): Promise<SuiteResult> {
  const startedMs = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "stoker-test-"));
  const reportFile = join(folder, "report.json");
  try {
    const code = await runNode(
      [
        join(root, "node_modules/vitest/vitest.mjs"),
        ...["run", ...which],
        ...["--reporter=default", "--reporter=json", `--outputFile.json=${reportFile}`],
      ],
      limitMs,
      options,
    );
    const report = readReport(reportFile);
    if (report) record(report, (options.env ?? process.env)["STOKER_NIGHTLY"] === "1");
    return { name, ...count(report, code), ms: performance.now() - startedMs };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function count(report: Report | undefined, code: number | null): Omit<SuiteResult, "name" | "ms"> {
  if (!report)
    return { passed: 0, failed: code === 0 ? 0 : 1, skipped: 0, remark: code === 0 ? "no tests yet" : "did not run" };
  const unloaded = report.testResults.filter(
    (file) => file.status === "failed" && !file.assertionResults.some((test) => test.status === "failed"),
  ).length;
  const counted = report.numFailedTests + unloaded;
  // An error outside of any test fails the run without failing a test.
  const failed = code !== 0 && counted === 0 ? 1 : counted;
  const skipped = report.numPendingTests + (report.numTodoTests ?? 0);
  const isEmpty = report.numPassedTests + failed + skipped === 0;
  return { passed: report.numPassedTests, failed, skipped, ...(isEmpty ? { remark: "no tests yet" } : {}) };
}

/** For `npm run report`. Files whose tests were all skipped prove nothing. */
function record(report: Report, isNightly: boolean): void {
  const from = origin();
  const results = report.testResults.flatMap(({ name, status, assertionResults }) => {
    const count = (of: string) => assertionResults.filter((test) => test.status === of).length;
    const [passed, failed] = [count("passed"), count("failed") || (status === "failed" ? 1 : 0)];
    return passed + failed === 0 ? [] : [[relative(root, name), { passed, failed, isNightly, ...from }] as const];
  });
  addTests(recordedFolder, Object.fromEntries(results));
}

function readReport(path: string): Report | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Report;
  } catch {
    return undefined;
  }
}

export interface SuiteResult {
  readonly name: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly ms: number;
  /** Reason why nothing ran, or what was not tested. */
  readonly remark?: string;
}

export function table(results: readonly SuiteResult[]): string {
  const head = ["suite", "passed", "failed", "skipped", "seconds", ""];
  const rows = results.map((one) => [
    one.name,
    String(one.passed),
    String(one.failed),
    String(one.skipped),
    (one.ms / 1000).toFixed(1),
    one.remark ?? "",
  ]);
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] ?? "").length)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => {
        const width = column === cells.length - 1 ? 0 : (widths[column] ?? 0);
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join("  ")
      .trimEnd();
  return [line(head), ...rows.map(line)].join("\n");
}

export function totals(results: readonly SuiteResult[]): { passed: number; failed: number } {
  return {
    passed: results.reduce((sum, one) => sum + one.passed, 0),
    failed: results.reduce((sum, one) => sum + one.failed, 0),
  };
}
