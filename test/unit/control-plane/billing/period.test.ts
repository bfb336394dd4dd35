import { describe, expect, it } from "vitest";
import { monthName, monthStartMs, readPeriod } from "../../../../control-plane/billing/period.ts";

const now = Date.UTC(2026, 1, 15, 12);
const names = (from: string, to?: string) => {
  const { first, last } = readPeriod(from, to, now);
  return [monthName(first), monthName(last)];
};

describe("a billing period", () => {
  it.each([
    ["current", undefined, ["2026.02", "2026.02"]],
    ["current(-1)", undefined, ["2026.01", "2026.01"]],
    ["current-1", "current", ["2026.01", "2026.02"]],
    ["current(-2)", "current", ["2025.12", "2026.02"]],
    ["current(-0)", undefined, ["2026.02", "2026.02"]],
    ["2024.11", "2025.02", ["2024.11", "2025.02"]],
    ["1769904000", undefined, ["2026.02", "2026.02"]],
    ["1769903999", undefined, ["2026.01", "2026.01"]],
  ])("from %j to %j is %j", (from, to, expected) => {
    expect(names(from, to)).toEqual(expected);
  });

  it.each([
    "",
    "2026.13",
    "2026.00",
    "2026-01",
    "now",
    "current(1)",
    "current(-99999)",
    "current(-9999)",
    "1e9",
    "99999999999999",
  ])("refuses from=%j, naming the field", (from) => {
    const refusal = (() => {
      try {
        return readPeriod(from, undefined, now);
      } catch (error) {
        return error;
      }
    })();
    expect(refusal).toMatchObject({ code: "bad_period" });
    expect(refusal).toMatchObject({ param: "from" });
  });

  it("refuses an end before its start and more than three years", () => {
    expect(() => readPeriod("2026.02", "2026.01", now)).toThrow(expect.objectContaining({ code: "bad_period" }));
    expect(() => readPeriod("2020.01", "2026.01", now)).toThrow(/36 months/);
  });

  it("has UTC bounds", () => {
    expect(monthStartMs(readPeriod("2026.02", undefined, now).first)).toBe(1769904000000);
  });
});
