// A WAV file -> 16-bit samples at another rate, a few seconds at a time: nothing of it is held whole. Pure.
import { Resampler } from "./resample.ts";
import { toPcm16, type WavSound } from "./wav.ts";

const secondsAtOnce = 5;

export function* pcmOfWav(wav: WavSound, rate: number): Generator<Buffer> {
  const resampler = wav.rate === rate ? undefined : new Resampler(wav.rate, rate);
  const step = wav.rate * secondsAtOnce;
  for (let at = 0; at < wav.length; at += step) {
    const mixed = wav.mixed(at, Math.min(at + step, wav.length));
    yield toPcm16(resampler ? resampler.push(mixed) : mixed);
  }
  if (resampler) yield toPcm16(resampler.end());
}
