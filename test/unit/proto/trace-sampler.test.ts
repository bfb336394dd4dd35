import { describe, expect, it } from "vitest";
import { createTraceSampler } from "../../../proto/trace-sampler.ts";

const batch = { delayMs: 1, timeoutMs: 1, maxQueued: 1, maxBatch: 1 };
const sampled = { traceId: "1".repeat(32), spanId: "1".repeat(16), isSampled: true };

function samplerOf(settings: { ratio: number; isParentBased?: boolean; clientsPerMinute?: number }, random = 0.5) {
  const clock = { ms: 0 };
  const all = { isParentBased: true, clientsPerMinute: 2, ...settings, batch };
  return {
    clock,
    sampler: createTraceSampler(
      all,
      () => clock.ms,
      () => random,
    ),
  };
}

describe("a trace sampler", () => {
  it("exports the ratio of new traces, and none or all at its ends", () => {
    expect(samplerOf({ ratio: 0.6 }).sampler.samplesNew()).toBe(true);
    expect(samplerOf({ ratio: 0.4 }).sampler.samplesNew()).toBe(false);
    expect(samplerOf({ ratio: 0 }, 0).sampler.samplesNew()).toBe(false);
    expect(samplerOf({ ratio: 1 }, 0.999).sampler.samplesNew()).toBe(true);
  });

  it("follows a client that does not want its trace exported", () => {
    expect(samplerOf({ ratio: 1 }).sampler.samplesClient({ ...sampled, isSampled: false })).toBe(false);
  });

  it("exports traces that clients sample beyond the ratio up to a limit per minute", () => {
    const { clock, sampler } = samplerOf({ ratio: 0 });
    const take = (count: number) => Array.from({ length: count }, () => sampler.samplesClient(sampled));
    expect(take(4)).toEqual([true, true, false, false]);
    clock.ms += 30_000;
    expect(take(2)).toEqual([true, false]);
    clock.ms += 3_600_000;
    expect(take(4)).toEqual([true, true, false, false]);
  });

  it("does not count against the limit what the ratio exports", () => {
    const { sampler } = samplerOf({ ratio: 1 });
    for (let n = 0; n < 10; n++) expect(sampler.samplesClient(sampled)).toBe(true);
  });

  it("ignores clients where the sampler is not parent-based", () => {
    const never = samplerOf({ ratio: 0, isParentBased: false }).sampler;
    expect(never.samplesClient(sampled)).toBe(false);
    const always = samplerOf({ ratio: 1, isParentBased: false }).sampler;
    expect(always.samplesClient({ ...sampled, isSampled: false })).toBe(true);
  });
});
