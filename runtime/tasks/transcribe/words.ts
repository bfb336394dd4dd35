// Timed tokens -> timed words: a token that begins with a space begins a word. Pure.
import type { TokenSegment } from "./segments.ts";

export interface Word {
  readonly word: string;
  /** Seconds of the recording. */
  readonly start: number;
  readonly end: number;
}

export function wordsOf(segment: TokenSegment, textOf: (tokens: readonly number[]) => string): readonly Word[] {
  const groups: { ids: number[]; start: number }[] = [];
  for (const { id, start } of segment.tokens) {
    const last = groups.at(-1);
    if (last && !textOf([id]).startsWith(" ")) last.ids.push(id);
    else groups.push({ ids: [id], start: Math.min(segment.end, Math.max(segment.start, start ?? segment.start)) });
  }
  return groups.map(({ ids, start }, index) => ({
    word: textOf(ids).trim(),
    start,
    end: Math.max(start, groups[index + 1]?.start ?? segment.end),
  }));
}

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

/**
 * Removes the silence before the first and after the last word: the model's attention shows where one word gives way to the next,
 * but not where speech begins and ends.
 */
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
  const limit = quiet * loudness.reduce((max, one) => Math.max(max, one), 0);
  if (limit === 0) return { start, end };
  const isLoud = (one: number) => one > limit;
  return {
    start: start + (loudness.findIndex(isLoud) * step) / rate,
    end: Math.min(end, start + ((loudness.findLastIndex(isLoud) + 1) * step) / rate),
  };
}
