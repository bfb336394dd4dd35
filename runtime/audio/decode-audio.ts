// An uploaded file -> a recording at the rate a model hears. WAV is read by a thread of this process; everything else by ffmpeg.
import { containerOf } from "./container.ts";
import { type DecodeLimits, decodeByFfmpeg, tooLong } from "./ffmpeg.ts";
import type { Recording } from "./recording.ts";
import { AudioRefusal } from "./sound.ts";
import type { SoundWorker } from "./sound-worker.ts";
import { openWav } from "./wav.ts";

/** The bytes are handed over: they may be gone afterwards. */
export type DecodeAudio = (bytes: Buffer, rate: number, signal: AbortSignal) => Promise<Recording>;

export interface DecoderOptions {
  readonly worker: SoundWorker;
  /** The ffmpeg program. */
  readonly program: string;
  readonly limits: DecodeLimits;
}

export const usualDecoding: Omit<DecoderOptions, "worker"> = {
  program: "ffmpeg",
  limits: { maxSeconds: 2 * 3600, timeoutMs: 120_000 },
};

export function createDecoder({ worker, program, limits }: DecoderOptions): DecodeAudio {
  return async (bytes, rate, signal) => {
    const container = containerOf(bytes);
    if (!container) {
      const forms = "flac, mp3, mp4, mpeg, mpga, m4a, ogg, wav or webm";
      throw new AudioRefusal("unreadable", `the file is none of ${forms}; convert it to one of them`);
    }
    const sound = container === "wav" ? openWav(bytes) : undefined;
    if (!sound) return decodeByFfmpeg(program, bytes, container, rate, limits, signal);
    if (sound.length / sound.rate > limits.maxSeconds) throw tooLong(limits.maxSeconds);
    return worker.recordingOfWav(bytes, rate, signal);
  };
}
