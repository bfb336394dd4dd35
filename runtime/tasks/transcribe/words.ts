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
