import { expect, test } from "vitest";
import { type SuiteResult, table, totals } from "../../../scripts/suites/vitest-suite.ts";

const results: SuiteResult[] = [
  { name: "unit", passed: 12, failed: 0, skipped: 1, ms: 1234 },
  { name: "docker", passed: 0, failed: 2, skipped: 0, ms: 50, remark: "did not run" },
];

test("totals are the sums over all suites", () => {
  expect(totals(results)).toEqual({ passed: 12, failed: 2 });
});

test("names every suite with its figures and remark", () => {
  const lines = table(results).split("\n");
  expect(lines).toHaveLength(3);
  expect(lines[1]).toMatch(/^unit +12 +0 +1 +1\.2$/);
  expect(lines[2]).toMatch(/^docker +0 +2 +0 +0\.\d +did not run$/);
});
