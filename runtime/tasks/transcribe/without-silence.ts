// A segment's words without the silence before the first and after the last: the model's attention tells where one word gives
// way to the next, but not where speech begins and ends. Pure.
import type { Word } from "./words.ts";

export interface HeardWindow {
  readonly window: Float32Array;
  /** Samples per second. */
  readonly rate: number;
  /** Start of the window in the recording, in seconds. */
  readonly startsAt: number;
}

const momentSeconds = 0.02;
/** 26 dB below the word's loudest moment: softer than its consonants, louder than the hiss of a usable recording. */
const quiet = 0.05;

export function withoutSilence(words: readonly Word[], heard: HeardWindow): readonly Word[] {
  const last = words.length - 1;
  return words.map((word, index) => {
    if (index > 0 && index < last) return word;
    const sound = soundWithin(word, heard);
    return {
      word: word.word,
      start: index === 0 ? sound.start : word.start,
      end: index === last ? sound.end : word.end,
    };
  });
}

function soundWithin({ start, end }: Word, { window, rate, startsAt }: HeardWindow) {
  const step = Math.max(1, Math.round(momentSeconds * rate));
  const first = Math.max(0, Math.round((start - startsAt) * rate));
  const after = Math.min(window.length, Math.round((end - startsAt) * rate));
  const loudness: number[] = [];
  for (let at = first; at < after; at += step) {
    const moment = window.subarray(at, Math.min(after, at + step));
    loudness.push(Math.sqrt(moment.reduce((sum, sample) => sum + sample ** 2, 0) / moment.length));
  }
  const limit = quiet * loudness.reduce((most, one) => Math.max(most, one), 0);
  if (limit === 0) return { start, end };
  const isLoud = (one: number) => one > limit;
  return {
    start: start + (loudness.findIndex(isLoud) * step) / rate,
    end: Math.min(end, start + ((loudness.findLastIndex(isLoud) + 1) * step) / rate),
  };
}
