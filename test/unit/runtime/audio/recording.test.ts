import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { wavHeader } from "../../../../proto/wav.ts";
import { createDecoder } from "../../../../runtime/audio/decode-audio.ts";
import { Recording } from "../../../../runtime/audio/recording.ts";
import { resample } from "../../../../runtime/audio/resample.ts";
import { SoundWorker } from "../../../../runtime/audio/sound-worker.ts";
import { openWav, toPcm16 } from "../../../../runtime/audio/wav.ts";
import { hasProgram, runProgram } from "../../../fakes/audio-tools.ts";
import { longer } from "../../../fakes/nightly.ts";

const decoding = { program: "/does/not/exist", limits: { maxSeconds: 7200, timeoutMs: 1000 } };
const noSignal = new AbortController().signal;
/** A tone that rises and falls, so that no stretch is like the next. */
const siren = (rate: number, seconds: number) =>
  Float32Array.from(
    { length: rate * seconds },
    (_, i) => 0.6 * Math.sin((i / rate) * (600 + 300 * Math.sin(i / rate))),
  );
const wavOf = (samples: Float32Array, rate: number) => Buffer.concat([wavHeader(rate), toPcm16(samples)]);

describe("a recording", () => {
  const sourceOf = (parts: readonly Uint8Array[]) => {
    let at = 0;
    return { next: async () => parts[at++], close: () => {} };
  };

  test("gives back the samples that went in, wherever its bytes were cut", async () => {
    const bytes = toPcm16(siren(16_000, 2));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 20_001 }), { maxLength: 6 }), async (cuts) => {
        let at = 0;
        const parts = [...cuts, bytes.length].map((length) => {
          at += length;
          return bytes.subarray(at - length, at);
        });
        const recording = new Recording(16_000, 32_000, () => sourceOf(parts));
        const found = await recording.samples(777, 31_000);
        expect(found).toHaveLength(30_223);
        expect(Array.from(found).every((value, i) => value * 0x8000 === bytes.readInt16LE((777 + i) * 2))).toBe(true);
      }),
      { numRuns: 20 },
    );
  });

  test("goes on over its pieces, ends where it ends, and holds no more than it is asked for", async () => {
    const parts = Array.from({ length: 9 }, (_, piece) => new Uint8Array(new Int16Array(100_000).fill(piece).buffer));
    const recording = new Recording(8000, 900_000, () => sourceOf(parts));
    expect(recording.seconds).toBe(112.5);
    expect([...(await recording.samples(599_999, 600_001))]).toEqual([5 / 0x8000, 6 / 0x8000]);
    expect(recording.held).toBeLessThanOrEqual(200_000);
    expect(await recording.samples(899_990, 2_000_000)).toHaveLength(10);
    expect(recording.held).toBe(100_000);
    await expect(recording.samples(0, 10)).rejects.toThrow(/forward/);
  });

  test("is silent where its audio breaks off", async () => {
    const recording = new Recording(8000, 20, () => sourceOf([toPcm16(new Float32Array(10).fill(0.5))]));
    expect([...(await recording.samples(0, 20))].map((value) => Math.round(value * 2))).toEqual([
      ...Array(10).fill(1),
      ...Array(10).fill(0),
    ]);
  });
});

describe("a compressed file of more than two minutes", () => {
  const folder = mkdtempSync(join(tmpdir(), "stoker-decoder-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  test.runIf(hasProgram("ffmpeg", "a long compressed file is not held whole"))(
    "is decoded twice instead of held whole",
    async () => {
      const minutes = longer(15, 120);
      const source = ["-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono", "-t", `${60 * minutes}`];
      const file = runProgram("ffmpeg", ["-v", "error", ...source, "-f", "flac", "pipe:1"]);
      const program = join(folder, "ffmpeg");
      writeFileSync(program, '#!/bin/sh\necho started >> "$0.log"\nexec ffmpeg "$@"\n', { mode: 0o755 });
      const starts = () => readFileSync(`${program}.log`, "utf8");
      const options = { program, limits: { maxSeconds: 7200, timeoutMs: 120_000 } };
      const recording = await createDecoder({ ...options, worker: new SoundWorker() })(file, 16_000, noSignal);
      expect(recording.seconds).toBe(60 * minutes);
      expect(starts()).toBe("started\n");
      let most = 0;
      for (let at = 0; at < recording.length; at += 30 * 16_000) {
        await recording.samples(at, at + 1);
        most = Math.max(most, recording.held);
      }
      recording.close();
      expect(starts()).toBe("started\nstarted\n");
      expect(most).toBeGreaterThan(0);
      expect(most).toBeLessThan(10 * 16_000);
    },
    longer(60_000, 300_000),
  );
});

describe("a WAV file that is decoded beside the server's own thread", () => {
  test("is what it is when it is resampled in one piece", async () => {
    const decode = createDecoder({ ...decoding, worker: new SoundWorker() });
    const file = wavOf(siren(22_050, 12), 22_050);
    const wanted = resample(openWav(file)?.mixed(0, 22_050 * 12) ?? new Float32Array(), 22_050, 16_000);
    const found = await decode(Buffer.from(file), 16_000, noSignal);
    expect(found.length).toBe(wanted.length);
    const samples = await found.samples(0, found.length);
    expect(samples.every((value, i) => Math.abs(value - (wanted[i] as number)) < 2 / 0x8000)).toBe(true);
  });

  test(
    "costs that thread a small part of the work, and is never held whole",
    async () => {
      const decode = createDecoder({ ...decoding, worker: new SoundWorker() });
      // Two hours in the nightly run; what is shown does not depend on it.
      const minutes = longer(10, 120);
      const header = wavHeader(8000);
      header.writeUInt16LE(8, 34);
      header.writeUInt32LE(8000, 28);
      header.writeUInt16LE(1, 32);
      const file = Buffer.concat([header, Buffer.alloc(8000 * 60 * minutes, 160)]);
      await (await decode(wavOf(siren(8000, 1), 8000), 16_000, noSignal)).samples(0, 1);
      const [own, all] = [process.threadCpuUsage(), process.cpuUsage()];
      const recording = await decode(file, 16_000, noSignal);
      const [first] = await recording.samples(16_000, 16_001);
      let most = 0;
      for (let at = 16_000; at < recording.length; at += 30 * 16_000) {
        await recording.samples(at, at + 1);
        most = Math.max(most, recording.held);
      }
      const [ownSpent, allSpent] = [process.threadCpuUsage(own), process.cpuUsage(all)];
      expect(recording.seconds).toBe(60 * minutes);
      expect(first).toBeCloseTo(0.25, 3);
      expect(most).toBeLessThan(10 * 16_000);
      expect(ownSpent.user).toBeLessThan(allSpent.user / 2);
    },
    longer(120_000, 300_000),
  );

  test("stops when its request ends, and the next one is served", async () => {
    const decode = createDecoder({ ...decoding, worker: new SoundWorker() });
    const gone = new AbortController();
    const recording = await decode(wavOf(siren(8000, 60), 8000), 16_000, gone.signal);
    const given = recording.samples(0, 50 * 16_000);
    gone.abort(new Error("gone"));
    await expect(given).rejects.toThrow("gone");
    const next = await decode(wavOf(siren(8000, 1), 8000), 16_000, noSignal);
    expect(await next.samples(0, 16_000)).toHaveLength(16_000);
  });

  test("returns the pitch of a voice as measured on this thread", async () => {
    const tone = Float32Array.from({ length: 16_000 }, (_, i) => Math.sin((2 * Math.PI * 150 * i) / 16_000));
    const hz = await new SoundWorker().medianPitchHz({ samples: tone, rate: 16_000 }, noSignal);
    expect(Math.abs((hz ?? 0) - 150)).toBeLessThan(2);
  });
});
