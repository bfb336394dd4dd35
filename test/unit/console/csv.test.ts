import { expect, it } from "vitest";
import { csvOf } from "../../../console/domain/csv.ts";

interface Row {
  readonly name: string;
  readonly amount: number | null;
}
const columns = [
  { name: "Name", value: (row: Row) => row.name },
  { name: "Amount, USD", value: (row: Row) => row.amount },
];

it("quotes separators", () => {
  expect(csvOf([{ name: 'a "b", c', amount: -1.5 }], columns)).toBe('Name,"Amount, USD"\r\n"a ""b"", c",-1.5\r\n');
});

it("escapes formulas in names", () => {
  for (const name of ["=1+1", "+1", "-1", "@SUM(A1)"]) {
    expect(csvOf([{ name, amount: null }], columns)).toBe(`Name,"Amount, USD"\r\n'${name},\r\n`);
  }
});
