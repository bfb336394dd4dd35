import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Engine, type EngineRequest } from "../../../simulator/engine.ts";
import { Histogram } from "../../../simulator/histogram.ts";
import { type EngineProfile, profiles } from "../../../simulator/profile.ts";
import { SegmentCache } from "../../../simulator/segment-cache.ts";
import { Timeline } from "../../../simulator/timeline.ts";

const profile: EngineProfile = {
  ...profiles["8b"],
  prefillTokensPerSecond: 10_000,
  stepMs: 20,
  stepMsPerSequence: 0,
  stepMsPerKiloContext: 0,
  chunkTokens: 2_000,
  cacheTokens: 100_000,
};

interface Times {
  firstMs: number;
  endMs: number;
  cached: number;
}

/** Sends requests at their times; returns when each got its first token and ended. */
function run(requests: readonly { atMs: number; id: number; prompt: number; output: number }[], of = profile): Times[] {
  const timeline = new Timeline();
  const engine = new Engine(of, timeline);
  const times = requests.map((): Times => ({ firstMs: -1, endMs: -1, cached: -1 }));
  for (const [i, { atMs, id, prompt, output }] of requests.entries()) {
    const own = times[i] as Times;
    const request: EngineRequest = {
      segments: [{ id, tokens: prompt }],
      promptTokens: prompt,
      outputTokens: output,
      cachedTokens: 0,
      left: 0,
      taken: 0,
      sawFirstToken: (nowMs) => {
        own.firstMs = nowMs;
        own.cached = request.cachedTokens;
      },
      finished: (nowMs) => {
        own.endMs = nowMs;
      },
    };
    timeline.set(timeline.add({ act: () => engine.enter(request) }), atMs);
  }
  timeline.run(10_000_000);
  return times;
}

describe("an engine", () => {
  it("evaluates a prompt at its rate and then gives a token each step", () => {
    const [only] = run([{ atMs: 0, id: 1, prompt: 5_000, output: 10 }]);
    expect(only?.firstMs).toBeCloseTo(500 + 20);
    expect(only?.endMs).toBeCloseTo(500 + 200);
  });

  it("evaluates prompts one after the other, and slows running sequences meanwhile", () => {
    const [one, two] = run([
      { atMs: 0, id: 1, prompt: 5_000, output: 1_000 },
      { atMs: 1_000, id: 2, prompt: 4_000, output: 1 },
    ]);
    // Two steps of 2,000 tokens: 200 ms each, and 20 ms for the tokens of both requests.
    expect(two?.firstMs).toBeCloseTo(1_000 + 440);
    expect(one?.endMs).toBeCloseTo(500 + 20 * 998 + 440);
  });

  it("takes what it evaluated before from its cache", () => {
    const [, again] = run([
      { atMs: 0, id: 1, prompt: 5_000, output: 10 },
      { atMs: 5_000, id: 1, prompt: 6_010, output: 10 },
    ]);
    expect(again?.cached).toBe(5_010);
    expect(again?.firstMs).toBeCloseTo(5_000 + 100 + 20);
  });

  it("lets prompts wait while running ones fill its cache", () => {
    const [one, two] = run([
      { atMs: 0, id: 1, prompt: 60_000, output: 10 },
      { atMs: 0, id: 2, prompt: 60_000, output: 10 },
    ]);
    expect(two?.firstMs).toBeGreaterThan((one?.endMs as number) + 6_000);
  });

  it("ends every request that it was sent", () => {
    const requests = fc.array(
      fc.record({
        atMs: fc.nat(5_000),
        id: fc.nat(5),
        prompt: fc.integer({ min: 1, max: 150_000 }),
        output: fc.integer({ min: 1, max: 500 }),
      }),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(requests, (list) => {
        for (const [i, { firstMs, endMs, cached }] of run(list).entries()) {
          expect(firstMs).toBeGreaterThan(list[i]?.atMs as number);
          expect(endMs).toBeGreaterThanOrEqual(firstMs - 1e-3);
          expect(cached).toBeLessThan(list[i]?.prompt as number);
        }
      }),
    );
  });
});

describe("an engine of batch slots that evaluates prompts together", () => {
  const slots: EngineProfile = { ...profile, prompts: "together", cache: "slots", maxBatchSize: 2, chunkTokens: 1_000 };

  it("gives prompts that arrive together equal parts of each step, and evaluates a common beginning for each", () => {
    const [one, two] = run(
      [
        { atMs: 0, id: 1, prompt: 3_000, output: 10 },
        { atMs: 0, id: 1, prompt: 3_000, output: 10 },
      ],
      slots,
    );
    // The first step is of the first request alone; then 2,000 tokens take 200 ms.
    expect(one?.firstMs).toBeCloseTo(100 + 200 + 200 + 20);
    expect(two?.firstMs).toBeCloseTo(100 + 200 + 200 + 100 + 20 + 20);
    expect([one?.cached, two?.cached]).toEqual([0, 0]);
  });

  it("keeps the latest request of each slot", () => {
    const requests = [1, 2, 1, 3, 1, 2].map((id, i) => ({ atMs: i * 2_000, id, prompt: 3_000 + i, output: 10 }));
    // Request 3 takes the slot of 2, which was used before that of 1.
    expect(run(requests, slots).map(({ cached }) => cached)).toEqual([0, 0, 3_001, 0, 3_003, 0]);
  });

  it("shortens steps to their limit, with all prompts together", () => {
    const short = { ...slots, maxStepMs: 50, minChunkTokens: 100 };
    const [running, , again] = run(
      [
        { atMs: 0, id: 1, prompt: 500, output: 1_000 },
        { atMs: 1_000, id: 2, prompt: 3_000, output: 1 },
        { atMs: 2_000, id: 3, prompt: 1, output: 1 },
      ],
      short,
    );
    // Steps of 300 tokens and a token: 50 ms, so the running request gets ten tokens meanwhile.
    expect(running?.endMs).toBeCloseTo(50 + 20 + 999 * 20 + 10 * 30 + 0.1, 0);
    expect(again?.firstMs).toBeLessThan(2_060);
  });
});

it("lets a request enter when another one ends", () => {
  const timeline = new Timeline();
  const engine = new Engine(profile, timeline);
  const ends: number[] = [];
  const enter = (id: number, outputTokens: number, finished: () => void) =>
    engine.enter({
      segments: [{ id, tokens: 1_000 }],
      promptTokens: 1_000,
      outputTokens,
      cachedTokens: 0,
      left: 0,
      taken: 0,
      sawFirstToken: () => {},
      finished: () => {
        ends.push(timeline.nowMs);
        finished();
      },
    });
  enter(1, 500, () => {});
  enter(2, 100, () => enter(3, 1, () => {}));
  timeline.run(1_000_000);
  // The first prompt begins alone. The second one ends after 100 steps, and the third one's prompt takes 100 ms of the first one's time.
  expect(ends.map(Math.round)).toEqual([120 + 100 + 100 * 20, 120 + 100 + 100 * 20 + 120, 100 + 500 * 20 + 200]);
});

it("adds the fixed time of a request, and evaluates slower behind a long context", () => {
  const slow = { ...profile, requestMs: 7, prefillSlowdownPerKiloContext: 0.1 };
  const [only] = run([{ atMs: 0, id: 1, prompt: 4_000, output: 1 }], slow);
  expect(only?.firstMs).toBeCloseTo(7 + 400 * 1.2 + 20);
});

describe("a cache of segments", () => {
  it("keeps a segment only behind whole ones, and cuts the least recently used", () => {
    const cache = new SegmentCache(100);
    const enter = (segments: readonly (readonly [number, number])[]) => {
      const list = segments.map(([id, tokens]) => ({ id, tokens }));
      const cached = cache.enter(list, 0);
      cache.leave(list);
      return cached;
    };
    expect(
      enter([
        [1, 40],
        [2, 40],
      ]),
    ).toBe(0);
    expect(
      enter([
        [1, 40],
        [2, 60],
      ]),
    ).toBe(80);
    expect(enter([[3, 30]])).toBe(0);
    // 1 was used before 2, and 2 before 3: 1 lost what 3 needed.
    expect(
      enter([
        [1, 40],
        [2, 60],
      ]),
    ).toBe(10);
  });
});

describe("a histogram", () => {
  it("returns quantiles within 1 %", () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0.01, max: 1e6, noNaN: true }), { minLength: 1 }), (values) => {
        const histogram = new Histogram();
        for (const value of values) histogram.add(value);
        const sorted = [...values].sort((a, b) => a - b);
        const exact = sorted[Math.ceil(sorted.length * 0.9) - 1] as number;
        expect(histogram.quantile(0.9) / exact).toBeGreaterThan(0.99);
        expect(histogram.quantile(0.9) / exact).toBeLessThan(1.01);
      }),
    );
  });
});

describe("a timeline", () => {
  it("runs actors in the order of their times", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(20), fc.nat(1_000)), { maxLength: 60 }), (changes) => {
        const timeline = new Timeline();
        const ran: number[] = [];
        const ids = Array.from({ length: 21 }, () => timeline.add({ act: (nowMs) => ran.push(nowMs) }));
        const last = new Map<number, number>();
        for (const [actor, atMs] of changes) {
          timeline.set(ids[actor] as number, atMs);
          last.set(actor, atMs);
        }
        timeline.run(1_000);
        expect(ran).toEqual([...last.values()].sort((a, b) => a - b));
      }),
    );
  });
});
