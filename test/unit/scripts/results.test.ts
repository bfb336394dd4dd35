import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { regressions } from "../../../scripts/results/compare.ts";
import { guaranteesOf, guaranteeTable, performancePage, withResults } from "../../../scripts/results/pages.ts";
import {
  addFigures,
  addTests,
  type FigureHistory,
  type FigureResult,
  readFigures,
  readTests,
} from "../../../scripts/results/recorded.ts";

const from = { on: "2026-11-30", commit: "abcdef01" };
const result = (value: number, low = value, high = value): FigureResult => ({
  ...{ value, low, high },
  ...from,
  machine: "2 cores, load 0.1",
  machineId: "a1b2c3",
});
const figure = (limit: Omit<FigureHistory, "results">, ...results: readonly FigureResult[]) => ({ ...limit, results });

describe("recorded results", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "stoker-results-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("of tests are the last ones of each file", () => {
    const test = { passed: 1, failed: 0, isNightly: false, ...from };
    addTests(folder, { "test/b.test.ts": test, "test/a.test.ts": test });
    addTests(folder, { "test/b.test.ts": { ...test, failed: 1 } });
    expect(Object.entries(readTests(folder)).map(([file, { failed }]) => [file, failed])).toEqual([
      ["test/a.test.ts", 0],
      ["test/b.test.ts", 1],
    ]);
  });

  it("of figures are the last 20, each once", () => {
    for (let value = 0; value < 25; value++) addFigures(folder, { "gateway: x": figure({}, result(value)) });
    addFigures(folder, readFigures(folder));
    const values = readFigures(folder)["gateway: x"]?.results.map(({ value }) => value);
    expect(values).toEqual(Array.from({ length: 20 }, (_, at) => at + 5));
  });
});

describe("a figure is worse", () => {
  const worse = (limit: Omit<FigureHistory, "results">, ...results: readonly FigureResult[]) =>
    regressions({ "gateway: x": figure(limit, ...results) }).length;

  it("where the ranges of both runs lie apart and a tenth is exceeded", () => {
    expect(worse({ atMost: 2 }, result(1, 0.9, 1.1), result(1.3, 1.2, 1.4))).toBe(1);
    expect(worse({ atLeast: 0.6 }, result(1, 0.9, 1.1), result(0.7, 0.6, 0.8))).toBe(1);
    expect(worse({}, result(1, 0.9, 1.1), result(1.3, 1.2, 1.4))).toBe(1);
  });

  it("than the last result of the same machine", () => {
    const elsewhere = { ...result(1, 0.9, 1.1), machineId: "d4e5f6" };
    expect(worse({}, elsewhere, result(1.3, 1.2, 1.4))).toBe(0);
    expect(worse({}, result(1, 0.9, 1.1), { ...elsewhere, value: 1.3, low: 1.2 }, result(1.3, 1.2, 1.4))).toBe(1);
  });

  it("neither by scatter, nor by less than a tenth, nor where it is better", () => {
    expect(worse({ atMost: 2 }, result(1, 0.9, 1.3), result(1.3, 1.2, 1.4))).toBe(0);
    expect(worse({ atMost: 2 }, result(1, 1, 1), result(1.09, 1.09, 1.09))).toBe(0);
    expect(worse({ atMost: 2 }, result(1.3, 1.2, 1.4), result(1, 0.9, 1.1))).toBe(0);
    expect(worse({ atLeast: 0.6 }, result(0.7, 0.6, 0.8), result(1, 0.9, 1.1))).toBe(0);
    expect(worse({ atMost: 2 }, result(5))).toBe(0);
  });
});

describe("the page of guarantees", () => {
  const page =
    "# R\n\n### Clock steps\n\nTests: `test/a.test.ts`, `test/b.test.ts`.\n\n### Prose\n\nNothing.\n\n## Other\n\n`test/c.test.ts`\n";
  const passed = { passed: 3, failed: 0, isNightly: false, ...from };

  it("has the sections that name tests", () => {
    expect(guaranteesOf(page)).toEqual([{ title: "Clock steps", tests: ["test/a.test.ts", "test/b.test.ts"] }]);
  });

  it("says what passed, what failed and what was not run", () => {
    const row = (tests: Parameters<typeof guaranteeTable>[1]) => guaranteeTable({ "r.md": page }, tests).split("\n")[2];
    expect(row({ "test/a.test.ts": passed })).toBe(
      "| [Clock steps](r.md#clock-steps) | 2 | `test/b.test.ts` not run; 3 tests passed, the oldest on 2026-11-30 at `abcdef01` |",
    );
    const failed = { ...passed, failed: 1 };
    expect(row({ "test/a.test.ts": { ...passed, isNightly: true }, "test/b.test.ts": failed })).toBe(
      "| [Clock steps](r.md#clock-steps) | 2 | `test/b.test.ts` **failed** 2026-11-30; 3 tests passed, the oldest on 2026-11-30 at `abcdef01`, 1 of the files at night |",
    );
  });

  it("keeps its place for the next table", () => {
    const own = readFileSync(join(import.meta.dirname, "../../../docs/reliability.md"), "utf8");
    const once = withResults(own, "| one |");
    expect(withResults(once, "| two |")).toBe(once.replace("| one |", "| two |"));
    expect(() => withResults("# No place", "")).toThrow("no place for results");
  });
});

it("the page of figures marks what misses its limit, and plots figures of two runs", () => {
  const { page, plots } = performancePage({
    "gateway: control plane": figure({ atMost: 0.9 }, result(1), result(1.19, 1, 1.3)),
    "gateway: memory": figure({ unit: "MiB", atMost: 300 }, { ...result(381), machineId: "d4e5f6" }, result(437)),
    "money: groups": figure({ atLeast: 0.6 }, result(0.8)),
  });
  expect(page).toContain("| control plane | **1.19 (1.00 to 1.30)** |  | at most 0.9 | 2 | 2026-11-30");
  expect(page).toContain(
    "| memory | **437 MiB (437 to 437)** | 381 MiB (381 to 381), 2026-11-30, `abcdef01`, d4e5f6, 2 cores, load 0.1 | at most 300 | 2 |",
  );
  expect(page).toContain("| groups | 0.80 (0.80 to 0.80) |  | at least 0.6 |");
  expect(Object.keys(plots)).toEqual(["gateway.svg"]);
});
