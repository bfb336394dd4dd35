// Converts an uploaded file to a recording at the model's sample rate. A thread of this process reads WAV; ffmpeg reads
// everything else, twice for long files: once for the length and once during transcription, so that no long file is held whole.
import { FairTurns } from "../batch/fair-turns.ts";
import { containerOf, openFfmpeg } from "./ffmpeg.ts";
import { heldRecording, Recording } from "./recording.ts";
import { AudioRefusal } from "./sound.ts";
import type { SoundWorker } from "./sound-worker.ts";
import { openWav } from "./wav.ts";

/**
 * Takes ownership of the bytes. `maxMs`: milliseconds of audio that were admitted; undefined: unknown. The caller closes the
 * recording.
 */
export type DecodeAudio = (bytes: Buffer, rate: number, signal: AbortSignal, maxMs?: number) => Promise<Recording>;

export interface DecodeLimits {
  readonly maxSeconds: number;
  /** Bound of one decoder's own work, in ms. */
  readonly timeoutMs: number;
}

export interface DecoderOptions {
  readonly worker: SoundWorker;
  readonly program: string;
  readonly limits: DecodeLimits;
}

export const usualDecoding: Omit<DecoderOptions, "worker"> = {
  program: "ffmpeg",
  limits: { maxSeconds: 2 * 3600, timeoutMs: 120_000 },
};

/** Recordings up to this length are held whole and decoded once. */
const heldSeconds = 120;
/** Tolerance above the admitted length: a bound computed from bytes is inexact for short files. */
const slackMs = 60_000;
/** Maximum number of files whose length is measured concurrently. */
const maxDecoders = 2;

export function createDecoder({ worker, program, limits }: DecoderOptions): DecodeAudio {
  const turns = new FairTurns(maxDecoders);
  return async (bytes, rate, signal, maxMs) => {
    signal.throwIfAborted();
    const container = containerOf(bytes);
    if (!container) {
      const forms = "flac, mp3, mp4, mpeg, mpga, m4a, ogg, wav or webm";
      throw new AudioRefusal("unreadable", `the file is none of ${forms}; convert it to one of them`);
    }
    const admitted = maxMs === undefined ? Number.POSITIVE_INFINITY : (maxMs + slackMs) / 1000;
    const check = (seconds: number) => {
      if (seconds > limits.maxSeconds) throw tooLong(limits.maxSeconds);
      if (seconds > admitted) throw longerThanItSays(admitted);
    };
    const wav = container === "wav" ? openWav(bytes) : undefined;
    if (wav) {
      check(wav.length / wav.rate);
      const length = Math.ceil((wav.length * rate) / wav.rate);
      return new Recording(rate, length, () => worker.pcmOfWav(bytes, rate, signal));
    }
    const open = () => openFfmpeg({ program, bytes, container, rate, timeoutMs: limits.timeoutMs }, signal);
    return turns.run(async () => {
      const source = open();
      const parts: Uint8Array[] = [];
      let size = 0;
      try {
        for (let part = await source.next(); part; part = await source.next()) {
          size += part.length;
          check(size / 2 / rate);
          if (size <= heldSeconds * rate * 2) parts.push(part);
          else parts.length = 0;
        }
      } finally {
        source.close();
      }
      const isHeld = size <= heldSeconds * rate * 2;
      return isHeld ? heldRecording(rate, parts) : new Recording(rate, Math.floor(size / 2), open);
    }, signal);
  };
}

function tooLong(maxSeconds: number): AudioRefusal {
  const minutes = Math.floor(maxSeconds / 60);
  return new AudioRefusal("too_long", `the audio is longer than ${minutes} minutes; send it in parts`);
}

function longerThanItSays(seconds: number): AudioRefusal {
  const text = `the file holds more audio than its head and size say (more than ${Math.floor(seconds)} s); convert it again`;
  return new AudioRefusal("too_long", text);
}
