// An uploaded file -> mono samples at the rate a model hears. WAV is read here; everything else is decoded by ffmpeg.
import { containerOf } from "./container.ts";
import { type DecodeLimits, decodeByFfmpeg, tooLong } from "./ffmpeg.ts";
import { resample } from "./resample.ts";
import { AudioRefusal, type Sound, secondsOf } from "./sound.ts";
import { readWav } from "./wav.ts";

export type DecodeAudio = (bytes: Buffer, rate: number, signal: AbortSignal) => Promise<Sound>;

export interface DecoderOptions {
  /** The ffmpeg program. */
  readonly program: string;
  readonly limits: DecodeLimits;
}

export const usualDecoding: DecoderOptions = {
  program: "ffmpeg",
  limits: { maxSeconds: 2 * 3600, timeoutMs: 120_000 },
};

export function createDecoder({ program, limits }: DecoderOptions): DecodeAudio {
  return async (bytes, rate, signal) => {
    const container = containerOf(bytes);
    if (!container) {
      const forms = "flac, mp3, mp4, mpeg, mpga, m4a, ogg, wav or webm";
      throw new AudioRefusal("unreadable", `the file is none of ${forms}; convert it to one of them`);
    }
    const sound = container === "wav" ? readWav(bytes) : undefined;
    if (!sound) return { samples: await decodeByFfmpeg(program, bytes, container, rate, limits, signal), rate };
    if (secondsOf(sound) > limits.maxSeconds) throw tooLong(limits.maxSeconds);
    return { samples: resample(sound.samples, sound.rate, rate), rate };
  };
}
