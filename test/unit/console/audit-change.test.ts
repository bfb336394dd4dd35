import { describe, expect, it } from "vitest";
import { changesOf, changesText } from "../../../console/domain/audit-change.ts";

describe("changesOf", () => {
  it("names the fields that differ, at any depth", () => {
    const before = { concurrent: 200, max: { "L4-24GB": 1, other: 8 } };
    const after = { concurrent: 200, max: { "L4-24GB": 3, other: 8 }, note: "launch" };
    expect(changesOf(before, after)).toEqual([
      { name: "max.L4-24GB", before: "1", after: "3" },
      { name: "note", before: undefined, after: "launch" },
    ]);
  });

  it("shows what was created or removed as a whole", () => {
    expect(changesText(null, { name: "key", roles: ["read", { a: 1 }] })).toBe(
      'name: – → key; roles: – → read, {"a":1}',
    );
    expect(changesText(5, null)).toBe("5 → –");
  });

  it("shows amounts in USD", () => {
    const [before, after] = [{ limit: "1000000000" }, { limit: "6000000000", amount: "5000000000" }];
    expect(changesText(before, after)).toBe("limit: $1.00 → $6.00; amount: – → $5.00");
    expect(changesText({ limit: 8, name: "1000000000" }, null)).toBe("limit: 8 → –; name: 1000000000 → –");
  });

  it("is empty when nothing changed", () => {
    expect(changesOf({ a: [1], b: null }, { a: [1] })).toEqual([]);
  });
});
