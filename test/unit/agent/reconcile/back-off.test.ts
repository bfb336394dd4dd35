import { describe, expect, it } from "vitest";
import { afterCrash, crashBackOff, fetchBackOff, startBackOff } from "../../../../agent/reconcile/back-off.ts";

const minute = 60_000;

/** Delays of crashes that follow each other as soon as they may. */
function delays(random: number, policy = crashBackOff): number[] {
  let crashes: readonly number[] = [];
  let nowMs = 0;
  const found: number[] = [];
  for (;;) {
    const after = afterCrash(crashes, 1_000, nowMs, random, policy);
    if (after.next.kind === "give-up") return found;
    found.push(after.next.atMs - nowMs);
    nowMs = after.next.atMs;
    crashes = after.crashes;
  }
}

describe("after a crash", () => {
  it.each([
    [0.5, [10_000, 20_000, 40_000, 80_000]],
    [0, [7_500, 15_000, 30_000, 60_000]],
  ])(
    "doubles the wait from 10 s, spread by a quarter (random %s), and gives up at the fifth within 30 minutes",
    (random, expected) => expect(delays(random)).toEqual(expected),
  );

  it("never waits longer than 300 s and a quarter", () => {
    const patient = { ...crashBackOff, giveUpAfter: 20, windowMs: 1_000 * minute };
    expect(Math.max(...delays(0.999, patient))).toBeLessThanOrEqual(375_000);
    expect(delays(0.5, patient).at(-1)).toBe(300_000);
  });

  it("forgets earlier crashes after ten minutes without one", () => {
    const before = [1, 2, 3, 4];
    const { next } = afterCrash(before, 10 * minute, 20 * minute, 0.5, crashBackOff);
    expect(next).toEqual({ kind: "retry", atMs: 20 * minute + 10_000 });
    expect(afterCrash(before, 10 * minute - 1, 20 * minute, 0.5, crashBackOff).next).toEqual({ kind: "give-up" });
  });

  it("crashes older than 30 minutes do not count", () => {
    const nowMs = 40 * minute;
    expect(afterCrash([1, 2, 3, 4], 9 * minute, nowMs, 0.5, crashBackOff).crashes).toEqual([nowMs]);
  });

  /** Of a source whose every attempt takes so long: ms from the first attempt's start to the end of the last, and their number. */
  function fetching(attemptMs: number, random: number) {
    let crashes: readonly number[] = [];
    let nowMs = 0;
    for (;;) {
      nowMs += attemptMs;
      const after = afterCrash(crashes, 0, nowMs, random, fetchBackOff);
      crashes = after.crashes;
      if (after.next.kind === "give-up") return { takenMs: nowMs, attempts: crashes.length };
      nowMs = after.next.atMs;
    }
  }

  it.each([0, 0.5, 0.999])(
    "reports a source that sends nothing for ten seconds each time within a minute (random %s)",
    (random) => {
      expect(fetching(10_000, random).takenMs).toBeLessThan(60_000);
    },
  );

  it("gives all attempts to a source that refuses at once, and to a long download that breaks", () => {
    expect(fetching(10, 0.5).attempts).toBe(5);
    expect(fetching(3 * minute, 0.5).attempts).toBe(5);
  });

  it.each([
    ["weights that do not come", fetchBackOff],
    ["a server that refuses to start", startBackOff],
  ])("reports %s within a minute", (_, policy) => {
    expect(delays(0.999, policy).reduce((a, b) => a + b)).toBeLessThan(60_000);
  });
});
