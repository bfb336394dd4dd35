import { expect, test } from "vitest";
import { table } from "../../../cli/table.ts";

test("no line is wider than 80 columns, and what was cut is marked", () => {
  const text = table(["ID", "MODEL", "STATUS"], [["DpM4BkrjEspUwmTa", "o/".padEnd(120, "x"), "deployed 1/1"]]);
  const lines = text.split("\n");
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(lines[1]).toContain("…");
  expect(lines[1]).toContain("DpM4BkrjEspUwmTa");
  expect(lines[1]).toContain("deployed 1/1");
});

test("columns line up under their heads and lines end without spaces", () => {
  const [head, first] = table(["A", "B"], [["long value", "x"]]).split("\n");
  expect(first?.indexOf("x")).toBe(head?.indexOf("B"));
  expect(head?.trimEnd()).toBe(head);
});
