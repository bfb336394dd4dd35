// Duration of audio, from its header only: exact if the container has it, otherwise an estimate and a bound from the number of
// bytes. Decodes nothing.

export interface AudioLength {
  /** Milliseconds, billed if the engine reports none. */
  readonly likelyMs: number;
  /** Maximum that a hold must cover. */
  readonly maxMs: number;
}

/** 128 kbit/s, common for music, and 8 kbit/s, the minimum for speech. */
const typicalBytesPerSecond = 16_000;
const minBytesPerSecond = 1_000;
/** Lossless quiet speech of 16,000 samples per second. */
const minFlacBytesPerSecond = 8_000;

export function audioLength(bytes: Buffer): AudioLength {
  const wav = wavMs(bytes);
  if (wav !== undefined) return { likelyMs: wav, maxMs: wav };
  // Their headers are not trusted: a hold covers what the bytes can contain.
  const flac = flacMs(bytes);
  if (flac !== undefined) return { likelyMs: flac, maxMs: Math.max(flac, msOf(bytes.length / minFlacBytesPerSecond)) };
  const ogg = oggMs(bytes);
  if (ogg !== undefined) return { likelyMs: ogg, maxMs: Math.max(ogg, msOf(bytes.length / minBytesPerSecond)) };
  return { likelyMs: msOf(bytes.length / typicalBytesPerSecond), maxMs: msOf(bytes.length / minBytesPerSecond) };
}

const msOf = (seconds: number) => Math.ceil(seconds * 1000);
const hasMark = (bytes: Buffer, mark: string, at: number) => bytes.toString("latin1", at, at + mark.length) === mark;

/** PCM, floating point, and either with an extended header. */
const plainFormats: ReadonlySet<number> = new Set([1, 3, 0xfffe]);

function wavMs(bytes: Buffer): number | undefined {
  if (!hasMark(bytes, "RIFF", 0) || !hasMark(bytes, "WAVE", 8)) return undefined;
  let perSecond = 0;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = bytes.readUInt32LE(at + 4);
    // Not the byte rate in the header: no decoder uses it.
    if (hasMark(bytes, "fmt ", at) && at + 24 <= bytes.length) {
      const isPlain = plainFormats.has(bytes.readUInt16LE(at + 8));
      const bits = bytes.readUInt16LE(at + 10) * bytes.readUInt16LE(at + 22);
      perSecond = isPlain ? (bytes.readUInt32LE(at + 12) * bits) / 8 : 0;
    }
    // A streamed file does not have its size: count the bytes that are present.
    if (hasMark(bytes, "data", at) && perSecond > 0) {
      return msOf(Math.min(size, bytes.length - at - 8) / perSecond);
    }
    at += 8 + size + (size % 2);
  }
  return undefined;
}

function flacMs(bytes: Buffer): number | undefined {
  if (!hasMark(bytes, "fLaC", 0) || bytes.length < 26) return undefined;
  const rate = bytes.readUIntBE(18, 3) >> 4;
  const samples = (bytes.readUInt8(21) & 0x0f) * 2 ** 32 + bytes.readUInt32BE(22);
  return rate > 0 && samples > 0 ? plausible(msOf(samples / rate), bytes) : undefined;
}

function oggMs(bytes: Buffer): number | undefined {
  if (!hasMark(bytes, "OggS", 0)) return undefined;
  const vorbis = bytes.subarray(0, 512).indexOf("\x01vorbis", 0, "latin1");
  const isOpus = bytes.subarray(0, 512).includes("OpusHead");
  const rate = isOpus ? 48_000 : vorbis >= 0 && vorbis + 16 <= bytes.length ? bytes.readUInt32LE(vorbis + 12) : 0;
  const last = bytes.lastIndexOf("OggS");
  if (rate === 0 || last < 0 || last + 14 > bytes.length) return undefined;
  const position = bytes.readBigUInt64LE(last + 6);
  return position < 2n ** 48n ? plausible(msOf(Number(position) / rate), bytes) : undefined;
}

/** Undefined for a header that claims less than its bytes can contain: the rest would be transcribed for free. */
function plausible(ms: number, bytes: Buffer): number | undefined {
  const maxBytesPerSecond = 48_000 * 4 * 8;
  return ms >= msOf(bytes.length / maxBytesPerSecond) && ms > 0 ? ms : undefined;
}
