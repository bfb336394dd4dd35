import { describe, expect, test } from "vitest";
import { audioFormats } from "../../../../proto/audio-formats.ts";
import { openEncoder } from "../../../../runtime/audio/encoder.ts";
import { openWav } from "../../../../runtime/audio/wav.ts";
import { hasProgram, runProgram } from "../../../fakes/audio-tools.ts";

const tone = (seconds: number, rate: number) =>
  Float32Array.from({ length: seconds * rate }, (_, i) => 0.4 * Math.sin((2 * Math.PI * 440 * i) / rate));

/** Options that name what a file without a header holds. */
const headless: Readonly<Record<string, readonly string[]>> = {
  pcm: ["-f", "s16le", "-ar", "24000", "-ac", "1"],
  ulaw: ["-f", "mulaw", "-ar", "8000", "-ac", "1"],
  alaw: ["-f", "alaw", "-ar", "8000", "-ac", "1"],
};

async function encoded(format: (typeof audioFormats)[number], rate: number, seconds: number) {
  const encoder = await openEncoder(format, rate);
  const samples = tone(seconds, rate);
  const parts: Uint8Array[] = [];
  for (let at = 0; at < samples.length; at += 5000) parts.push(encoder.encode(samples.subarray(at, at + 5000)));
  const early = Buffer.concat(parts).length;
  parts.push(encoder.end());
  encoder.free();
  return { bytes: Buffer.concat(parts), early, contentType: encoder.contentType };
}

describe.each(audioFormats)("speech as %s", (format) => {
  test("has most of its bytes before it ends", async () => {
    const { bytes, early, contentType } = await encoded(format, 24_000, 2);
    expect(contentType).toMatch(/^audio\//);
    expect(early).toBeGreaterThan(bytes.length * 0.7);
  });

  test.runIf(hasProgram("ffmpeg", `${format} is read by other programs`))(
    "sounds the same and as long to another program",
    async () => {
      for (const rate of [24_000, 22_050]) {
        const { bytes } = await encoded(format, rate, 2);
        const input = headless[format] ?? [];
        const args = ["-v", "error", ...input, "-i", "pipe:0", "-ar", "24000", "-ac", "1", "-f", "f32le", "pipe:1"];
        const out = runProgram("ffmpeg", args, bytes);
        const heard = new Float32Array(Uint8Array.from(out).buffer);
        expect(heard.length / 24_000).toBeGreaterThan(1.97);
        expect(heard.length / 24_000).toBeLessThan(2.12);
        let crossings = 0;
        const middle = heard.subarray(12_000, 36_000);
        for (let i = 1; i < middle.length; i += 1)
          if ((middle[i - 1] as number) < 0 && (middle[i] as number) >= 0) crossings += 1;
        expect(Math.abs(crossings - 440)).toBeLessThan(3);
        expect(Math.max(...middle)).toBeGreaterThan(0.3);
        expect(Math.max(...middle)).toBeLessThan(0.5);
      }
    },
  );
});

test("keeps the beginning of Opus, which players skip", async () => {
  if (!hasProgram("ffmpeg", "Opus keeps its beginning")) return;
  const { bytes } = await encoded("opus", 24_000, 1);
  const out = runProgram("ffmpeg", ["-v", "error", "-i", "pipe:0", "-ar", "24000", "-f", "f32le", "pipe:1"], bytes);
  const heard = new Float32Array(Uint8Array.from(out).buffer);
  expect(Math.max(...heard.subarray(0, 480).map(Math.abs))).toBeGreaterThan(0.2);
});

test("writes WAV of unknown length that is read to its end", async () => {
  const { bytes } = await encoded("wav", 22_050, 1);
  expect(bytes.readUInt32LE(4)).toBe(0xffffffff);
  expect(openWav(bytes)?.length).toBe(22_050);
});
