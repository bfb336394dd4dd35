import { describe, expect, it } from "vitest";
import { audioLength } from "../../../../../control-plane/http/inference/audio-length.ts";

function wav(data: number, claimed = data, byteRate = 32_000): Buffer {
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(16_000, 24);
  head.writeUInt32LE(byteRate, 28);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(claimed, 40);
  return Buffer.concat([head, Buffer.alloc(data)]);
}

function flac(samples: number, rate: number, bytes: number): Buffer {
  const file = Buffer.alloc(bytes);
  file.write("fLaC", 0);
  file.writeUIntBE(rate * 16, 18, 3);
  file.writeUInt32BE(samples, 22);
  return file;
}

function opus(position: bigint): Buffer {
  const file = Buffer.alloc(4000);
  file.write("OggS", 0);
  file.write("OpusHead", 28);
  file.write("OggS", 3000);
  file.writeBigUInt64LE(position, 3006);
  return file;
}

const both = (ms: number) => ({ likelyMs: ms, maxMs: ms });

describe("the length of audio", () => {
  it("is exact where the file says it", () => {
    expect(audioLength(wav(96_000))).toEqual(both(3000));
    expect(audioLength(flac(44_100 * 7, 44_100, 4000))).toEqual(both(7000));
    expect(audioLength(opus(48_000n * 5n))).toEqual(both(5000));
  });

  it("of a streamed file is that of the bytes that are there", () => {
    expect(audioLength(wav(32_000, 0xffff_ffff))).toEqual(both(1000));
  });

  it("is guessed and bounded from the bytes where it does not", () => {
    expect(audioLength(Buffer.alloc(160_000, 1))).toEqual({ likelyMs: 10_000, maxMs: 160_000 });
  });

  it("is not believed where it is shorter than the bytes can be", () => {
    expect(audioLength(flac(1, 44_100, 16_000_000)).maxMs).toBe(16_000_000);
  });

  it("is held in full where a head says less than a decoder would hear", () => {
    expect(audioLength(wav(96_000, 96_000, 0xffff_ffff))).toEqual(both(3000));
    const chained = Buffer.concat([Buffer.alloc(0), opus(48_000n), Buffer.alloc(60_000)]);
    expect(audioLength(chained).maxMs).toBeGreaterThanOrEqual(60_000);
    expect(audioLength(flac(44_100, 44_100, 800_000)).maxMs).toBe(100_000);
  });

  it.each([Buffer.alloc(0), Buffer.from("RIFF"), Buffer.from("OggS"), Buffer.from("fLaC")])(
    "of a piece of a head does not fail (%#)",
    (bytes) => {
      expect(audioLength(bytes).maxMs).toBeGreaterThanOrEqual(0);
    },
  );
});
