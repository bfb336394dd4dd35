import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { audioLength } from "../../../../../../control-plane/http/inference/audio-length.ts";
import { SampleBuffer, samplesOf, wavOf } from "../../../../../../control-plane/http/inference/realtime/sound.ts";
import { VoiceActivity } from "../../../../../../control-plane/http/inference/realtime/voice-activity.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

describe("sound on the wire", () => {
  it("decodes G.711 as the tables of the standard", () => {
    const valuesOf = (format: "audio/pcmu" | "audio/pcma", ...codes: number[]) => {
      const samples = samplesOf(format, Buffer.from(codes)) as Buffer;
      return codes.map((_, index) => samples.readInt16LE(index * 2));
    };
    expect(valuesOf("audio/pcmu", 0xff, 0x7f, 0x00, 0x80, 0xf0)).toEqual([0, 0, -32_124, 32_124, 120]);
    expect(valuesOf("audio/pcma", 0xd5, 0x55, 0x2a, 0xaa, 0x80)).toEqual([8, -8, -32_256, 32_256, 5504]);
  });

  it("refuses half a sample", () => {
    expect(samplesOf("audio/pcm", Buffer.alloc(3))).toBeUndefined();
  });

  it("becomes a file whose length is known", () => {
    expect(audioLength(wavOf(Buffer.alloc(48_000), 24_000))).toEqual({ likelyMs: 1000, maxMs: 1000 });
  });
});

describe("a buffer of samples", () => {
  it("returns every sample once, in order, however it is filled and read", () => {
    const step = fc.record({ add: fc.integer({ min: 0, max: 300 }), take: fc.integer({ min: 0, max: 300 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
        const buffer = new SampleBuffer();
        let written = 0;
        let read = 0;
        for (const { add, take } of steps) {
          const samples = Buffer.alloc(add * 2);
          for (let i = 0; i < add; i += 1) samples.writeUInt16LE(written++ & 0xffff, i * 2);
          buffer.append(samples);
          expect([buffer.start, buffer.end]).toEqual([read, written]);
          const taken = buffer.takeBefore(buffer.start + take);
          for (let i = 0; i < taken.length; i += 2) expect(taken.readUInt16LE(i)).toBe(read++ & 0xffff);
        }
      }),
    );
  });

  it("frees the memory of samples that were dropped", async () => {
    // Other files of this worker may hold buffers.
    collectGarbage();
    const others = process.memoryUsage().arrayBuffers;
    const sound = new SampleBuffer();
    for (let i = 0; i < 32; i += 1) sound.append(Buffer.alloc(1024 * 1024, i));
    sound.dropBefore(sound.end - 100);
    sound.append(Buffer.alloc(20, 7));
    await vi.waitFor(() => {
      collectGarbage();
      expect(process.memoryUsage().arrayBuffers - others).toBeLessThan(16 * 1024 * 1024);
    });
    expect([...sound.takeBefore(sound.end)]).toEqual([...Array(200).fill(31), ...Array(20).fill(7)]);
  });
});

describe("voice activity", () => {
  const rate = 8_000;
  const options = { rate, start: 0, threshold: 0.5, silenceMs: 100 };
  const tone = (seconds: number, level: number) => {
    const samples = Buffer.alloc(seconds * rate * 2);
    for (let i = 0; i < samples.length; i += 2) samples.writeInt16LE(i % 4 === 0 ? level : -level, i);
    return samples;
  };
  const stream = Buffer.concat([tone(0.5, 10), tone(0.3, 4000), tone(0.5, 10), tone(0.02, 4000), tone(0.3, 10)]);

  it("finds the same speech however the samples are divided", () => {
    const whole = new VoiceActivity(options).push(stream);
    expect(whole).toEqual([
      { kind: "started", at: 4000 },
      { kind: "stopped", at: 7200 },
    ]);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2000 }), (count) => {
        const voice = new VoiceActivity(options);
        const found = [];
        for (let at = 0; at < stream.length; at += count * 2)
          found.push(...voice.push(stream.subarray(at, at + count * 2)));
        expect(found).toEqual(whole);
      }),
    );
  });

  it("needs louder speech at a higher threshold", () => {
    expect(new VoiceActivity({ ...options, threshold: 1 }).push(tone(0.5, 2000))).toEqual([]);
    expect(new VoiceActivity({ ...options, threshold: 0 }).push(tone(0.5, 100))).toHaveLength(1);
  });
});
