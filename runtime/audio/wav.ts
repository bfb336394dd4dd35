// RIFF WAVE: read what people upload (PCM of 8 to 32 bits, float).
// Pure. Source: Microsoft, "Multimedia Programming Interface and Data Specifications 1.0".
import { AudioRefusal } from "./sound.ts";

const pcm = 1;
const float = 3;
const extensible = 0xfffe;

interface WavFormat {
  readonly code: number;
  readonly channels: number;
  readonly rate: number;
  readonly bits: number;
}

export interface WavSound {
  /** Samples per second. */
  readonly rate: number;
  /** Samples of each channel. */
  readonly length: number;
  /** From `first` up to `end`, channels mixed to one. */
  mixed(first: number, end: number): Float32Array;
}

/** Reads the header alone. Undefined for a coding other than PCM and float. Throws AudioRefusal. */
export function openWav(bytes: Buffer): WavSound | undefined {
  let format: WavFormat | undefined;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const name = bytes.toString("latin1", at, at + 4);
    const size = bytes.readUInt32LE(at + 4);
    // A streamed file says 0 or 0xFFFFFFFF: its data goes to the end.
    const isOpenEnded = name === "data" && (size === 0 || size === 0xffffffff);
    const end = isOpenEnded ? bytes.length : Math.min(at + 8 + size, bytes.length);
    if (name === "fmt " && end - at >= 24) format = readFormat(bytes, at + 8, end);
    if (name === "data") {
      if (!format) throw new AudioRefusal("unreadable", "the WAV file has no format before its data");
      const read = readerOf(format);
      return read && soundOf(bytes, at + 8, end, format, read);
    }
    at += 8 + size + (size & 1);
  }
  throw new AudioRefusal("unreadable", "the WAV file has no data");
}

function readFormat(bytes: Buffer, at: number, end: number): WavFormat {
  const code = bytes.readUInt16LE(at);
  const format = {
    // The true coding of the extensible form is the first field of its sub-format.
    code: code === extensible && end - at >= 26 ? bytes.readUInt16LE(at + 24) : code,
    channels: bytes.readUInt16LE(at + 2),
    rate: bytes.readUInt32LE(at + 4),
    bits: bytes.readUInt16LE(at + 14),
  };
  const isSane = format.channels >= 1 && format.channels <= 32 && format.rate >= 1000 && format.rate <= 768_000;
  if (!isSane) throw new AudioRefusal("unreadable", "the WAV file names an impossible sample rate or channel count");
  return format;
}

type Read = (bytes: Buffer, at: number) => number;

function readerOf({ code, bits }: WavFormat): Read | undefined {
  if (code === float && bits === 32) return (bytes, at) => bytes.readFloatLE(at);
  if (code === float && bits === 64) return (bytes, at) => bytes.readDoubleLE(at);
  if (code !== pcm) return undefined;
  if (bits === 8) return (bytes, at) => (bytes.readUInt8(at) - 128) / 128;
  if (bits === 16) return (bytes, at) => bytes.readInt16LE(at) / 0x8000;
  if (bits === 24) return (bytes, at) => bytes.readIntLE(at, 3) / 0x800000;
  return bits === 32 ? (bytes, at) => bytes.readInt32LE(at) / 0x80000000 : undefined;
}

function soundOf(bytes: Buffer, start: number, end: number, { channels, rate, bits }: WavFormat, read: Read): WavSound {
  const width = bits / 8;
  const frame = width * channels;
  return {
    rate,
    length: Math.floor((end - start) / frame),
    mixed(first, last) {
      const samples = new Float32Array(last - first);
      for (let i = 0; i < samples.length; i += 1) {
        const at = start + (first + i) * frame;
        let sum = 0;
        for (let channel = 0; channel < channels; channel += 1) sum += read(bytes, at + channel * width);
        samples[i] = Number.isFinite(sum) ? sum / channels : 0;
      }
      return samples;
    },
  };
}

/** Samples as 16-bit little-endian PCM, as the machine itself keeps them; clipped. Exact for what 16 bits were read from. */
export function toPcm16(samples: Float32Array): Buffer<ArrayBuffer> {
  const out = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i += 1) {
    const value = Math.round((samples[i] as number) * 0x8000);
    out[i] = Math.max(-0x8000, Math.min(0x7fff, value));
  }
  return Buffer.from(out.buffer);
}
