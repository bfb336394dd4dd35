import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { medianPitchHz } from "../../../../runtime/audio/pitch.ts";
import { Resampler, resample } from "../../../../runtime/audio/resample.ts";

const tone = (hz: number, rate: number, seconds: number, overtone = 0) =>
  Float32Array.from({ length: Math.round(rate * seconds) }, (_, i) => {
    const at = (2 * Math.PI * hz * i) / rate;
    return 0.5 * Math.sin(at) + overtone * Math.sin(2 * at);
  });

describe("a change of the sample rate", () => {
  test.each([
    [24_000, 48_000],
    [22_050, 16_000],
    [44_100, 16_000],
    [8000, 16_000],
  ])("keeps a tone unchanged from %i to %i", (from, to) => {
    const found = resample(tone(440, from, 0.5), from, to);
    const wanted = tone(440, to, 0.5);
    expect(found).toHaveLength(wanted.length);
    const inner = [...found.keys()].slice(200, -200);
    const worst = Math.max(...inner.map((i) => Math.abs((found[i] as number) - (wanted[i] as number))));
    expect(worst).toBeLessThan(0.001);
  });

  test("drops what the new rate cannot hold instead of folding it back", () => {
    const found = resample(tone(7000, 48_000, 0.2), 48_000, 8000).subarray(100, -100);
    expect(Math.max(...found.map(Math.abs))).toBeLessThan(0.01);
  });

  test("is the same however the stream is cut", () => {
    const whole = tone(300, 22_050, 0.05);
    const wanted = resample(whole, 22_050, 48_000);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 8 }), (lengths) => {
        const resampler = new Resampler(22_050, 48_000);
        const found: number[] = [];
        let at = 0;
        for (const length of [...lengths, whole.length]) {
          found.push(...resampler.push(whole.subarray(at, at + length)));
          at += length;
        }
        found.push(...resampler.end());
        expect(found).toEqual([...wanted]);
      }),
      { numRuns: 30 },
    );
  });
});

describe("the median pitch", () => {
  test.each([85, 120, 210, 320])("is %i Hz for a voice at that pitch, whatever its overtones", (hz) => {
    expect(medianPitchHz({ samples: tone(hz, 24_000, 0.6, 0.4), rate: 24_000 })).toBeCloseTo(hz, 0);
  });

  test("is undefined for silence and noise", () => {
    expect(medianPitchHz({ samples: new Float32Array(8000), rate: 16_000 })).toBeUndefined();
    let seed = 1;
    const noise = Float32Array.from({ length: 16_000 }, () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed / 2 ** 30 - 1;
    });
    expect(medianPitchHz({ samples: noise, rate: 16_000 })).toBeUndefined();
  });
});
