export interface SuiteResult {
  readonly name: string;
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly ms: number;
  /** Reason why nothing ran, or what was not tested. */
  readonly remark?: string;
}

/** Summary table as plain text. */
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
