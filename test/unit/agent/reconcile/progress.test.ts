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
  it("make a canary due when they do not change for slightly over a minute with requests in flight", () => {
    expect(watched(looks(7, () => busy))).toBeUndefined();
    expect(watched(looks(9, () => busy))).toBe(80 * second);
  });

  it("prevent a canary while they change, however long the engine is busy", () =>
    expect(watched(looks(200, (i) => ({ ...busy, mark: String(i) })))).toBeUndefined());

  it("may take as long as its prompts take to be read", () => {
    const long = { ...busy, promptTokens: 20_000 };
    expect(watched(looks(100, () => long))).toBeUndefined();
    expect(watched(looks(110, () => long))).toBeGreaterThan(1_060 * second);
  });

  it("may stay unchanged while the engine is idle, which then gets a canary periodically", () => {
    expect(watched(looks(30, () => idle))).toBeUndefined();
    expect(watched(looks(32, () => idle))).toBeGreaterThan(300 * second);
  });

  it("are measured from the arrival of work, not from the end of earlier work", () => {
    const works = [...looks(29, () => idle), ...looks(5, () => busy)];
    expect(watched(works)).toBeUndefined();
  });

  it("make a canary due at once before the engine is ready, unless requests already run", () => {
    const fresh = { ...idle, hasServed: false };
    expect(watched([fresh])).toBe(0);
    expect(watched([{ ...busy, hasServed: false }])).toBeUndefined();
    expect(watched([fresh], { ...newPulse(0), answeredAtMs: 1 })).toBeUndefined();
  });
});
