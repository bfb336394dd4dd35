// Thread that mixes, resamples and measures sound: seconds of work for a long recording, which would block the server. Files are
// read piece by piece on request, so that a short one does not wait for a long one.
import { moved, serveCalls } from "../threads/thread-calls.ts";
import { medianPitchHz } from "./pitch.ts";
import { Resampler } from "./resample.ts";
import type { Sound } from "./sound.ts";
import { openWav, toPcm16, type WavSound } from "./wav.ts";

export type SoundFunctions = typeof functions;

const open = new Map<number, Generator<Buffer>>();

const functions = {
  /** First piece of the file. Throws AudioRefusal. */
  wav(id: number, bytes: Uint8Array, rate: number) {
    const { buffer, byteOffset, byteLength } = bytes;
    const wav = openWav(Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength));
    if (!wav) throw new Error("this WAV file is of another coding");
    open.set(id, pcmOfWav(wav, rate));
    return functions.more(id);
  },

  /** Next piece; undefined at the end. */
  more(id: number) {
    const piece = open.get(id)?.next();
    if (piece && !piece.done) return moved(piece.value as Uint8Array | undefined, [piece.value.buffer as ArrayBuffer]);
    open.delete(id);
    return moved<Uint8Array | undefined>(undefined, []);
  },

  /** The rest of the file is no longer needed. */
  leave(id: number): void {
    open.delete(id);
  },

  pitch: (sound: Sound) => medianPitchHz(sound),
};

/** Resamples a WAV file to 16-bit samples, a few seconds at a time to limit memory. */
const secondsAtOnce = 5;

function* pcmOfWav(wav: WavSound, rate: number): Generator<Buffer> {
  const resampler = wav.rate === rate ? undefined : new Resampler(wav.rate, rate);
  const step = wav.rate * secondsAtOnce;
  for (let at = 0; at < wav.length; at += step) {
    const mixed = wav.mixed(at, Math.min(at + step, wav.length));
    yield toPcm16(resampler ? resampler.push(mixed) : mixed);
  }
  if (resampler) yield toPcm16(resampler.end());
}

serveCalls(functions);
