import { describe, expect, test } from "vitest";
import { wavHeader } from "../../../../proto/wav.ts";
import { createDecoder } from "../../../../runtime/audio/decode-audio.ts";
import { containerOf } from "../../../../runtime/audio/ffmpeg.ts";
import { SoundWorker } from "../../../../runtime/audio/sound-worker.ts";
import { openWav, toPcm16 } from "../../../../runtime/audio/wav.ts";

const limits = { maxSeconds: 60, timeoutMs: 1000 };
const noSignal = new AbortController().signal;
const worker = new SoundWorker();

function wav(code: number, channels: number, bits: number, data: Buffer, size = data.length): Buffer {
  const header = Buffer.concat([wavHeader(8000)]);
  header.writeUInt16LE(code, 20);
  header.writeUInt16LE(channels, 22);
  header.writeUInt16LE(bits, 34);
  header.writeUInt32LE(size, 40);
  return Buffer.concat([header, data]);
}

describe("a WAV file", () => {
  test("gives the same samples in every depth it may have", () => {
    const eight = wav(1, 1, 8, Buffer.from([128, 192, 64]));
    const sixteen = wav(1, 1, 16, toPcm16(Float32Array.of(0, 0.5, -0.5)));
    const floats = wav(3, 1, 32, Buffer.from(Float32Array.of(0, 0.5, -0.5).buffer));
    const deep = Buffer.alloc(9);
    [0, 0x400000, -0x400000].forEach((value, index) => void deep.writeIntLE(value, index * 3, 3));
    for (const file of [eight, sixteen, floats, wav(1, 1, 24, deep)]) {
      const sound = openWav(file);
      expect(sound?.rate).toBe(8000);
      expect([...(sound?.mixed(0, sound.length) ?? [])].map((sample) => Number(sample.toFixed(3)))).toEqual([
        0, 0.5, -0.5,
      ]);
    }
  });

  test("is mixed to one channel, and read to its end where its length was not known", () => {
    const stereo = wav(1, 2, 16, toPcm16(Float32Array.of(1, 0, 0.5, 0.5)), 0xffffffff);
    expect([...(openWav(stereo)?.mixed(0, 2) ?? [])].map((sample) => Number(sample.toFixed(3)))).toEqual([0.5, 0.5]);
  });

  test("is left to the decoder when it holds another coding, and refused when it is broken", () => {
    expect(openWav(wav(2, 1, 4, Buffer.alloc(8)))).toBeUndefined();
    expect(() => openWav(wavHeader(8000).subarray(0, 36))).toThrow(/no data/);
    expect(() => openWav(wav(1, 0, 16, Buffer.alloc(8)))).toThrow(/impossible/);
  });
});

describe("an uploaded file", () => {
  test("is known by its first bytes, whatever it is called", () => {
    const start = (text: string) => Buffer.concat([Buffer.from(text, "latin1"), Buffer.alloc(12)]);
    expect(containerOf(start("fLaC"))).toBe("flac");
    expect(containerOf(start("OggS"))).toBe("ogg");
    expect(containerOf(start("\0\0\0\x20ftypM4A "))).toBe("mp4");
    expect(containerOf(start("\x1a\x45\xdf\xa3"))).toBe("matroska");
    expect(containerOf(start("ID3"))).toBe("mp3");
    expect(containerOf(start("\xff\xfb\x90"))).toBe("mp3");
    expect(containerOf(start("\xff\xf1\x50"))).toBe("aac");
    expect(containerOf(start("#EXTM3U\nfile:///etc/passwd"))).toBeUndefined();
  });

  test("is refused before any decoder reads it if it is no audio", async () => {
    const decode = createDecoder({ worker, program: "/does/not/exist", limits });
    await expect(decode(Buffer.from("#EXTM3U\nfile:///etc/passwd"), 16_000, noSignal)).rejects.toThrow(/none of flac/);
  });

  test("names the missing decoder for a coded form; WAV needs none", async () => {
    const decode = createDecoder({ worker, program: "/does/not/exist", limits });
    await expect(decode(Buffer.from("fLaC"), 16_000, noSignal)).rejects.toThrow(/ffmpeg is not installed/);
    const { length } = await decode(wav(1, 1, 16, Buffer.alloc(1600)), 16_000, noSignal);
    expect(length).toBe(1600);
  });

  test("is refused above the limit", async () => {
    const decode = createDecoder({ worker, program: "ffmpeg", limits: { ...limits, maxSeconds: 0.05 } });
    await expect(decode(wav(1, 1, 16, Buffer.alloc(1600)), 16_000, noSignal)).rejects.toThrow(/longer than/);
  });
});
