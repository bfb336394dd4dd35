import { describe, expect, it } from "vitest";
import {
  afterLook,
  newPulse,
  type Pulse,
  silenceOf,
  type Work,
  watchLimits,
} from "../../../../agent/reconcile/progress.ts";

const second = 1_000;
const idle: Work = { inFlight: 0, promptTokens: 0, mark: "5", hasServed: true };
const busy: Work = { ...idle, inFlight: 2, promptTokens: 100 };

/** How long it is silent at the end of looks ten seconds apart. */
function watched(works: readonly Work[], from: Pulse = newPulse(0)): number | undefined {
  let pulse = from;
  let silent: number | undefined;
  works.forEach((work, i) => {
    const nowMs = (i + 1) * 10 * second;
    pulse = afterLook(pulse, work, nowMs);
    silent = silenceOf(pulse, work, nowMs, watchLimits);
  });
  return silent;
}
const looks = (count: number, work: (i: number) => Work) => Array.from({ length: count }, (_, i) => work(i));

describe("the tokens of an engine", () => {
  it("that stand still with requests in flight are asked after once a minute and a little has passed", () => {
    expect(watched(looks(7, () => busy))).toBeUndefined();
    expect(watched(looks(9, () => busy))).toBe(80 * second);
  });

  it("that move keep it from being asked, however long it is busy", () =>
    expect(watched(looks(200, (i) => ({ ...busy, mark: String(i) })))).toBeUndefined());

  it("may take as long as its prompts take to be read", () => {
    const long = { ...busy, promptTokens: 20_000 };
    expect(watched(looks(100, () => long))).toBeUndefined();
    expect(watched(looks(110, () => long))).toBeGreaterThan(1_060 * second);
  });

  it("stand still without blame while it is idle, and then it is asked now and then", () => {
    expect(watched(looks(30, () => idle))).toBeUndefined();
    expect(watched(looks(32, () => idle))).toBeGreaterThan(300 * second);
  });

  it("are counted from when work came, not from the last time it had any", () => {
    const works = [...looks(29, () => idle), ...looks(5, () => busy)];
    expect(watched(works)).toBeUndefined();
  });

  it("are asked for at once before it counts as ready, unless others use it already", () => {
    const fresh = { ...idle, hasServed: false };
    expect(watched([fresh])).toBe(0);
    expect(watched([{ ...busy, hasServed: false }])).toBeUndefined();
    expect(watched([fresh], { ...newPulse(0), answeredAtMs: 1 })).toBeUndefined();
  });
});
