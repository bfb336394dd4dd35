import { expect, test } from "vitest";
import { table } from "../../../cli/table.ts";
import { csv } from "../../../proto/csv.ts";

test("fits a table into its terminal: cuts prose first, then names, and marks what was cut", () => {
  const row = ["DpM4BkrjEspUwmTa", "o/".padEnd(60, "x"), "2026-11-22T11:44:42", "why ".repeat(20).trim()];
  const head = ["ID", "MODEL", "AT", "NOTE"];
  const [, wide] = table(head, [row], 120).split("\n");
  expect(wide).toHaveLength(120);
  expect(wide).toContain(`${row[0]}  ${row[1]}  ${row[2]}  why`);
  const [, narrow] = table(head, [row], 80).split("\n");
  expect(narrow).toHaveLength(80);
  expect(narrow).toMatch(/^DpM4BkrjEspUwmTa {2}o\/x+… {2}2026-11-22T11:44:42 {2}why why…$/);
});

test("cuts the names of the audit log, which are e-mail addresses", () => {
  const email = `${"a".repeat(60)}@example.com`;
  const [head, row] = table(
    ["AT", "ACTOR", "ACTION", "SUBJECT", "NOTE"],
    [["now", email, "key.create", email, "x"]],
    80,
  ).split("\n");
  expect(head).toContain("SUBJECT");
  expect(row).toHaveLength(80 - "NOTE".length + "x".length);
  expect(row).toMatch(/^now {2}a+… {2}key\.create {2}a+… +x$/);
});

test("never cuts ids, times and row names, however narrow the terminal is", () => {
  const model = "o/".padEnd(60, "x");
  const batch = "batch_1glOfZdkTfVSDkLm3nPq5rS7tU9vW1xY";
  expect(table(["MODEL", "SINCE"], [[model, "2026-11-22T11:44:42"]], 20)).toContain(`${model}  2026-11-22T11:44:42`);
  expect(table(["REQUEST", "MODEL", "KEY"], [[batch, "a/b", "stk_********fuqx"]], 20)).toContain(
    `${batch}  a/b    stk_********fuqx`,
  );
});

test("cuts nothing without a terminal", () => {
  const note = "why ".repeat(100).trim();
  expect(table(["ID", "NOTE"], [["a", note]])).toBe(`ID  NOTE\na   ${note}`);
});

test("columns line up under their heads and lines end without spaces", () => {
  const [head, first] = table(["A", "B"], [["long value", "x"]]).split("\n");
  expect(first?.indexOf("x")).toBe(head?.indexOf("B"));
  expect(head?.trimEnd()).toBe(head);
});

test("writes every CSV cell whole, and none that a spreadsheet would run", () => {
  const name = `${"x".repeat(100)}, "y"`;
  expect(
    csv(
      ["A", "B"],
      [
        [name, "=1+1"],
        ["-0.5", "@x"],
      ],
    ),
  ).toBe(`A,B\r\n"${"x".repeat(100)}, ""y""",'=1+1\r\n-0.5,'@x`);
});

test("characters that take two columns of a terminal are counted so, and never cut in half", () => {
  const lines = table(
    ["NAME", "KEY"],
    [
      ["日本語のモデル", "a"],
      ["cafe\u0301", "b"],
      ["👩‍💻 dev", "c"],
      ["한국어", "d"],
    ],
  ).split("\n");
  expect(lines).toEqual([
    "NAME            KEY",
    "日本語のモデル  a",
    "cafe\u0301            b",
    "👩‍💻 dev          c",
    "한국어          d",
  ]);
  const [, cut] = table(["ID", "NOTE"], [["a", "日本語のモデル".repeat(3)]], 20).split("\n");
  expect(cut).toBe("a   日本語のモデル…");
});
