// Encodes sound piece by piece: the first bytes are sent before the last samples are computed.

import flac from "@audio/encode-flac";
import mp3 from "@audio/encode-mp3";
import opus from "@audio/encode-opus";
import type { AudioFormat } from "../../proto/audio-formats.ts";
import { wavHeader } from "../../proto/wav.ts";
import { toG711 } from "./g711.ts";
import { Resampler } from "./resample.ts";
import { toPcm16 } from "./wav.ts";

export interface AudioEncoder {
  readonly contentType: string;
  encode(samples: Float32Array): Uint8Array;
  /** The last bytes; nothing may follow. */
  end(): Uint8Array;
  /** Releases the memory, also without `end`. */
  free(): void;
}

export const contentTypes: Readonly<Record<AudioFormat, string>> = {
  mp3: "audio/mpeg",
  opus: "audio/opus",
  flac: "audio/flac",
  wav: "audio/wav",
  pcm: "audio/pcm",
  ulaw: "audio/basic",
  alaw: "audio/x-alaw-basic",
};

/** Sample rate that clients of raw samples expect by default. */
const pcmRate = 24_000;
/** Sample rate of telephony: `ulaw` and `alaw`. */
const g711Rate = 8_000;
const opusRate = 48_000;
/** 20 ms, as the encoder cuts its packets: fed more at once it copies what is left for each of them. */
const opusFrame = 960;
/** The encoder has players skip 3840 samples, and itself delays by 312: silence fills what they skip. */
const opusLead = 3840 - 312;
const opusDelay = 312;

/** Mono at `rate`, 16 bits or what the format's usual quality for speech is. */
export async function openEncoder(format: AudioFormat, rate: number): Promise<AudioEncoder> {
  const contentType = contentTypes[format];
  switch (format) {
    case "wav":
      return raw(contentType, wavHeader(rate));
    case "pcm":
      return rate === pcmRate ? raw(contentType) : resampled(raw(contentType), rate, pcmRate);
    case "ulaw":
    case "alaw": {
      const inner = raw(contentType);
      const coded = { ...inner, encode: (samples: Float32Array) => toG711(format, toPcm16(samples)) };
      return rate === g711Rate ? coded : resampled(coded, rate, g711Rate);
    }
    case "mp3":
      return coded(contentType, await mp3({ sampleRate: rate, channels: 1, bitrate: 96 }));
    case "flac":
      return coded(contentType, await flac({ sampleRate: rate, channels: 1, bitDepth: 16 }));
    case "opus": {
      const inner = coded(contentType, await opus({ sampleRate: opusRate, channels: 1, bitrate: 48 }));
      return resampled(framed(inner), rate, opusRate);
    }
  }
}

function raw(contentType: string, header?: Buffer): AudioEncoder {
  let isStarted = header === undefined;
  const withHeader = (bytes: Buffer) => {
    if (isStarted || !header) return bytes;
    isStarted = true;
    return Buffer.concat([header, bytes]);
  };
  return {
    contentType,
    encode: (samples) => withHeader(toPcm16(samples)),
    end: () => withHeader(Buffer.alloc(0)),
    free: () => {},
  };
}

interface StreamEncoder {
  encode(channels: Float32Array[]): Uint8Array;
  flush(): Uint8Array;
  free(): void;
}

function coded(contentType: string, inner: StreamEncoder): AudioEncoder {
  let isFree = false;
  return {
    contentType,
    // The encoder's own memory is used again at its next call.
    encode: (samples) => (samples.length === 0 ? new Uint8Array() : Uint8Array.from(inner.encode([samples]))),
    end: () => Uint8Array.from(inner.flush()),
    free: () => {
      if (!isFree) inner.free();
      isFree = true;
    },
  };
}

/** Feeds only whole frames, with silence before the first and, for the encoder's delay, after the last. */
function framed(inner: AudioEncoder): AudioEncoder {
  let kept: Float32Array = new Float32Array(opusLead);
  const feed = (samples: Float32Array) => {
    const all = new Float32Array(kept.length + samples.length);
    all.set(kept);
    all.set(samples, kept.length);
    const out: Uint8Array[] = [];
    let at = 0;
    for (; at + opusFrame <= all.length; at += opusFrame) out.push(inner.encode(all.subarray(at, at + opusFrame)));
    kept = all.slice(at);
    return Buffer.concat(out);
  };
  return {
    ...inner,
    encode: feed,
    end: () => {
      const body = feed(new Float32Array(opusDelay));
      const rest = kept.length > 0 ? inner.encode(kept) : new Uint8Array();
      return Buffer.concat([body, rest, inner.end()]);
    },
  };
}

function resampled(inner: AudioEncoder, from: number, to: number): AudioEncoder {
  const resampler = new Resampler(from, to);
  return {
    ...inner,
    encode: (samples) => inner.encode(resampler.push(samples)),
    end: () => Buffer.concat([inner.encode(resampler.end()), inner.end()]),
  };
}
