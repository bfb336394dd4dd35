// Figures of a simulation in a terminal and in the report.
import { expect, it } from "vitest";
import { linesOf, tableOf } from "../../../simulator/report.ts";
import type { Outcome } from "../../../simulator/simulate.ts";

const outcome = {
  policy: "stoker",
  turnsPerSecond: 2,
  ttftMs: { p50: 1, p90: 2, p99: 3 },
  tokenMs: { p50: 4, p99: 5 },
  cachedShare: 0.5,
  refused: 0,
  gpuHours: 1,
  revenueUsd: 7,
} as unknown as Outcome;

it("names each figure in full where it has a line of its own", () => {
  const lines = linesOf([outcome]).split("\n");
  expect(lines.map((line) => line.split(/ {2,}/)).slice(2, 7)).toEqual([
    ["First token p50", "1 ms"],
    ["First token p90", "2 ms"],
    ["First token p99", "3 ms"],
    ["Per token p50", "4 ms"],
    ["Per token p99", "5 ms"],
  ]);
  expect(new Set(lines.map((line) => line.split(/ {2,}/)[0])).size).toBe(lines.length);
});

it("has short titles in a table", () => {
  expect(tableOf([outcome]).split("\n")[0]).toMatch(/First token p50 \| p90 +\| p99/);
});
