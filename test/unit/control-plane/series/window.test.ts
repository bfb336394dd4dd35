import { describe, expect, it } from "vitest";
import { maxPoints, windowOf } from "../../../../control-plane/series/series.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const nowMs = Date.UTC(2026, 8, 15, 12, 34, 56);
const last = (ms: number, stepSeconds?: number) => windowOf({ fromMs: nowMs - ms, toMs: nowMs, stepSeconds }, nowMs);

describe("the points of a range", () => {
  it.each([
    [hourMs, 60, 1],
    [6 * hourMs, 120, 1],
    [12 * hourMs, 300, 1],
    [dayMs, 600, 10],
    [7 * dayMs, 3_600, 10],
    [14 * dayMs, 7_200, 10],
    [30 * dayMs, 21_600, 360],
    [90 * dayMs, 43_200, 360],
  ])("of %d ms are %d s long, of rows of %d minutes", (ms, seconds, resolution) => {
    const { fromMs, toMs, stepMs, resolution: found } = last(ms);
    expect([stepMs, found]).toEqual([seconds * 1000, resolution]);
    expect((toMs - fromMs) / stepMs).toBeLessThanOrEqual(maxPoints);
    expect(fromMs % stepMs).toBe(0);
    expect(fromMs).toBeLessThanOrEqual(nowMs - ms);
    expect(toMs).toBeGreaterThanOrEqual(nowMs);
  });

  it("are as long as requested where the rows are kept and the points are not too many", () => {
    expect(last(dayMs, 600)).toMatchObject({ stepMs: 600_000, resolution: 10 });
    expect(() => last(dayMs, 60)).toThrow(/`step` must be one of 300, 600, .* at most 500 points/);
    expect(() => last(2 * dayMs, 300)).toThrow(/points of at least 600 seconds/);
    expect(() => last(30 * dayMs, 3_600)).toThrow(/points of at least 21600 seconds/);
  });

  it("need a range of 5 minutes to 90 days", () => {
    expect(() => last(60_000)).toThrow("at least 5 minutes");
    expect(() => last(92 * dayMs)).toThrow("at most 90 days");
  });
});
