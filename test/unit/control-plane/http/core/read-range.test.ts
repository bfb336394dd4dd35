import { expect, it } from "vitest";
import { readRange } from "../../../../../control-plane/http/core/read-range.ts";

const now = Date.UTC(2026, 6, 15);
const hour = 3_600_000;

it.each([
  ["now-5h", undefined, now - 5 * hour, now],
  ["now-2w", "now", now - 14 * 24 * hour, now],
  ["now-1M", "now-1d", now - 30 * 24 * hour, now - 24 * hour],
  ["1782000000", "1783000000.5", 1_782_000_000_000, 1_783_000_000_500],
  [undefined, undefined, now - 5 * hour, now],
] as const)("from %s to %s", (from, to, fromMs, toMs) => {
  expect(readRange(from, to, now)).toEqual({ fromMs, toMs });
});

it.each([["yesterday"], ["now+1h"], ["now-1y"], ["-5"], ["now-5h "]])("%j is refused", (text) => {
  expect(() => readRange(text, undefined, now)).toThrow(expect.objectContaining({ code: "bad_time" }));
});

it("a range that ends before it begins, or is longer than 400 days, is refused", () => {
  expect(() => readRange("now-1h", "now-2h", now)).toThrow(/must not be after/);
  expect(() => readRange("0", undefined, now)).toThrow(/400 days/);
});
