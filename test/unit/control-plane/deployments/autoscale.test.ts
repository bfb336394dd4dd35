import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  type Sample,
  type ScaleQuestion,
  scaleTo,
  scaleWindows,
} from "../../../../control-plane/deployments/autoscale.ts";

const windows = scaleWindows;
/** Every five seconds, the last one now. */
const lasting = (ms: number, over: Partial<Sample>): Sample[] =>
  Array.from({ length: ms / 5_000 + 1 }, (_, n) => ({
    atMs: n * 5_000,
    load: 0,
    isStarting: false,
    ...over,
  }));
const then = (before: readonly Sample[], after: readonly Sample[]): Sample[] => [
  ...before,
  ...after.map((one) => ({ ...one, atMs: one.atMs + (before.at(-1)?.atMs ?? 0) + 5_000 })),
];
const ask = (samples: readonly Sample[], over: Partial<ScaleQuestion> = {}) =>
  scaleTo({ min: 1, max: 4, target: 1, maxBatchSize: 10, windows, idleForMs: 0, ...over, samples });

describe("the number of instances", () => {
  it("grows by sustained load until no instance exceeds its target", () => {
    expect(ask(lasting(10_000, { load: 8 }))).toBe(1);
    expect(ask(lasting(10_000, { load: 9 }))).toBe(2);
    expect(ask(lasting(10_000, { load: 25 }))).toBe(4);
    expect(ask(lasting(10_000, { load: 1_000 }))).toBe(4);
    // A burst, and one that is not over yet.
    expect(ask(then(lasting(10_000, { load: 2 }), lasting(5_000, { load: 90 })))).toBe(1);
    expect(ask(lasting(5_000, { load: 90 }))).toBe(1);
  });

  it("shrinks after five minutes of low load, to what the busiest moment in them needed", () => {
    expect(ask(lasting(300_000, { load: 1 }), { target: 4 })).toBe(1);
    expect(ask(lasting(295_000, { load: 1 }), { target: 4 })).toBe(4);
    expect(ask(then(lasting(100_000, { load: 17 }), lasting(200_000, { load: 0 })), { target: 4 })).toBe(3);
    // What starts has not taken its part of the load yet.
    expect(ask(lasting(300_000, { load: 1, isStarting: true }), { target: 4 })).toBe(4);
  });

  it("is zero only after the whole idle time, never while an instance starts, and never if the minimum is one", () => {
    const idle = { min: 0, idleForMs: 900_000 };
    expect(ask(lasting(0, {}), idle)).toBe(0);
    expect(ask(lasting(900_000, {}), { ...idle, idleForMs: 899_999 })).toBe(1);
    expect(ask(lasting(0, { isStarting: true }), idle)).toBe(1);
    expect(ask(lasting(0, {}), { ...idle, min: 1 })).toBe(1);
    // Who sleeps is woken by callers alone.
    expect(ask(lasting(900_000, { load: 50 }), { min: 0, target: 0 })).toBe(0);
  });

  it("grows before growing arrivals would meet a cold start, and not by chance", () => {
    /** Arrivals per five seconds over two minutes, and a load that one instance holds. */
    const arriving = (per5s: (n: number) => number): Sample[] => {
      let arrived = 0;
      return lasting(120_000, { load: 7 }).map((one, n) => {
        arrived += per5s(n);
        return { ...one, arrived };
      });
    };
    const growing = arriving((n) => 10 + 2 * n);
    expect(ask(growing, { startMs: 120_000 })).toBe(2);
    // An instance that starts at once can wait until it is needed.
    expect(ask(growing, { startMs: 0 })).toBe(1);
    expect(
      ask(
        arriving(() => 30),
        { startMs: 120_000 },
      ),
    ).toBe(1);
    expect(
      ask(
        arriving((n) => 30 + (n % 3)),
        { startMs: 120_000 },
      ),
    ).toBe(1);
    expect(
      ask(
        arriving((n) => 60 - 2 * n),
        { startMs: 120_000 },
      ),
    ).toBe(1);
    // At most twice the load.
    expect(ask(growing, { startMs: 3_600_000 })).toBe(2);
    expect(ask(growing.slice(-12), { startMs: 120_000 })).toBe(1);
  });

  it("grows by one while users wait longer than a target, and keeps all until they wait far less", () => {
    const targets = { ttftMs: 1_000, queueMs: 500 };
    const first = (ttftP95Ms: number) => lasting(300_000, { load: 1, ttftP95Ms });
    expect(ask(first(1_001), { targets })).toBe(2);
    expect(ask(first(1_001))).toBe(1);
    expect(ask(first(1_000), { targets })).toBe(1);
    expect(ask(lasting(300_000, { load: 1, queueP95Ms: 501 }), { targets })).toBe(2);
    expect(ask(first(1_001), { targets, max: 1 })).toBe(1);
    // A moment is not enough, nor is one without requests.
    expect(ask(then(first(100), lasting(5_000, { ttftP95Ms: 5_000 })), { targets })).toBe(1);
    expect(ask(then(first(5_000), lasting(5_000, {})), { targets })).toBe(1);
    // The new instance must have served for a while: reports still contain earlier requests.
    const starting = lasting(60_000, { ttftP95Ms: 5_000, isStarting: true });
    expect(ask(starting, { targets, target: 2 })).toBe(2);
    expect(ask(then(starting, lasting(20_000, { ttftP95Ms: 5_000 })), { targets, target: 2 })).toBe(2);
    expect(ask(then(starting, lasting(25_000, { ttftP95Ms: 5_000 })), { targets, target: 2 })).toBe(3);
    expect(ask(first(501), { targets, target: 3 })).toBe(3);
    expect(ask(first(500), { targets, target: 3 })).toBe(1);
  });

  it("follows changed bounds immediately", () => {
    expect(ask(lasting(5_000, {}), { min: 2, max: 4, target: 1 })).toBe(2);
    expect(ask(lasting(5_000, { load: 90 }), { min: 1, max: 2, target: 4 })).toBe(2);
    expect(ask([], { min: 0, max: 3, target: 3 })).toBe(3);
  });

  it("stays within its bounds, depends on load alone, and more load never means fewer", () => {
    const load = fc.integer({ min: 0, max: 60 });
    fc.assert(
      fc.property(
        fc.array(load, { minLength: 1, maxLength: 80 }),
        fc.integer({ min: 0, max: 3 }),
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 0, max: 5 }),
        fc.integer({ min: 0, max: 30 }),
        (loads, min, above, target, more) => {
          const max = min + above;
          const samples = (extra: number) =>
            loads.map((one, n) => ({ atMs: n * 5_000, load: one + extra, isStarting: false }));
          const of = (extra: number) => ask(samples(extra), { min, max, target });
          expect(of(0)).toBeGreaterThanOrEqual(min);
          expect(of(0)).toBeLessThanOrEqual(max);
          expect(of(more)).toBeGreaterThanOrEqual(of(0));
          // Settled: asked again with its own answer it changes nothing.
          const settled = of(0);
          if (target > 0) expect(ask(samples(0), { min, max, target: settled })).toBe(settled);
        },
      ),
    );
  });
});
