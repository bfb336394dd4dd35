import { describe, expect, it } from "vitest";
import { agoText, bytes, count, usd, usdOfCents } from "../../../console/ui/format.ts";

describe("amounts", () => {
  it.each([
    [0, "$0.00"],
    [10.03, "$10.03"],
    [1234567.891, "$1,234,567.89"],
    [-3.5, "-$3.50"],
    [0.0123, "$0.0123"],
    [0.000000011, "$0.000000011"],
  ])("show %d as %s: an amount owed is never shown as zero", (amount, text) => {
    expect(usd(amount)).toBe(text);
  });

  it("are the same from cents as in dollars", () => {
    expect(usdOfCents(1250)).toBe("$12.50");
  });
});

it.each([
  [0, "0"],
  [1234.5678, "1,234.568"],
  [0.0005, "0.0005"],
  [0.00123, "0.0012"],
])("counts %d as %s", (value, text) => {
  expect(count(value)).toBe(text);
});

it.each([
  [0, "0 B"],
  [1023, "1023 B"],
  [1536, "1.5 KiB"],
  [80 * 1024 ** 3, "80.0 GiB"],
])("shows %d bytes as %s", (size, text) => {
  expect(bytes(size)).toBe(text);
});

it.each([
  [999, "now"],
  [1000, "1 second ago"],
  [119_000, "1 minute ago"],
  [7_200_000, "2 hours ago"],
  [172_800_000, "2 days ago"],
  [-60_000, "in 1 minute"],
])("shows a time %d ms ago as %s", (passedMs, text) => {
  expect(agoText(1_000_000_000_000 - passedMs, 1_000_000_000_000)).toBe(text);
});
