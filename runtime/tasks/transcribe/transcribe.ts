// A whole recording, window by window: each begins where the one before was last understood.

import { setImmediate as nextTurn } from "node:timers/promises";
import type { Recording } from "../../audio/recording.ts";
import type { Recogniser } from "./recogniser.ts";
import { cutSegments } from "./segments.ts";
import { type Word, withoutSilence, wordsOf } from "./words.ts";

export interface TranscribeAsk {
  /** ISO 639-1; undefined: the model finds out. */
  readonly language: string | undefined;
  readonly task: "transcribe" | "translate";
  readonly prompt: string | undefined;
  /** 0 = greedy. */
  readonly temperature: number;
  readonly wantsWords: boolean;
  /** At most the model's own window. */
  readonly windowSeconds: number;
}

export interface Segment {
  readonly id: number;
  /** Seconds of the recording. */
  readonly start: number;
  readonly end: number;
  readonly text: string;
  readonly tokens: readonly number[];
}

export interface Transcript {
  readonly task: TranscribeAsk["task"];
  /** ISO 639-1. */
  readonly language: string;
  readonly seconds: number;
  readonly text: string;
  readonly segments: readonly Segment[];
  /** Undefined unless requested. */
  readonly words: readonly Word[] | undefined;
  /** Generated, for the log and the metrics. */
  readonly outputTokens: number;
}

/** Quieter than the rounding of 16 bits: a model invents words for silence. */
const silence = 1.5 / 0x8000;

/** Maximum characters per token of the prompt. */
const widestHint = 64;

/** `onSegment`: called as soon as a segment is known. Throws the signal's reason when it aborts. */
export async function transcribe(
  recogniser: Recogniser,
  recording: Recording,
  ask: TranscribeAsk,
  signal: AbortSignal,
  onSegment: (segment: Segment) => void = () => {},
): Promise<Transcript> {
  const { rate, timestampBegin, tokenSeconds } = recogniser;
  const { seconds } = recording;
  const { maxPromptTokens } = recogniser;
  const hint = ask.prompt?.trim().slice(-maxPromptTokens * widestHint);
  const prompt = hint ? recogniser.tokenize(` ${hint}`).slice(-maxPromptTokens) : [];
  let language = recogniser.languages.length === 1 ? recogniser.languages[0] : ask.language;
  const segments: Segment[] = [];
  const words: Word[] = [];
  let outputTokens = 0;
  for (let startsAt = 0; startsAt < seconds; ) {
    signal.throwIfAborted();
    const first = Math.round(startsAt * rate);
    const longest = Math.round(ask.windowSeconds * rate);
    const reach = await recording.samples(first, first + longest);
    const window = recording.length - first > longest ? reach.subarray(0, quietestCut(reach, rate)) : reach;
    const windowSeconds = window.length / rate;
    if (window.length === 0) break;
    if (window.every((sample) => Math.abs(sample) < silence)) {
      startsAt += windowSeconds;
      // Hours of silence must not keep others from the server's own thread.
      await nextTurn();
      continue;
    }
    language ??= await recogniser.detectLanguage(window, signal);
    const heard = await recogniser.hear(
      window,
      {
        language: recogniser.languages.length === 1 ? undefined : language,
        translates: ask.task === "translate",
        // Text before the recording; between windows nothing is carried over, so that no slip repeats itself.
        prompt: startsAt === 0 ? prompt : [],
        temperature: ask.temperature,
        wantsWords: ask.wantsWords,
      },
      signal,
    );
    outputTokens += heard.tokens.length;
    const cut = cutSegments(heard, { timestampBegin, tokenSeconds, startsAt, seconds: windowSeconds });
    for (const segment of cut.segments) {
      const tokens = segment.tokens.map(({ id }) => id);
      const text = recogniser.textOf(tokens);
      if (text.trim() === "") continue;
      const known = { id: segments.length, start: segment.start, end: segment.end, text, tokens };
      segments.push(known);
      onSegment(known);
      if (!ask.wantsWords) continue;
      const timed = wordsOf(segment, (ids) => recogniser.textOf(ids));
      words.push(...withoutSilence(timed, { window, rate, startsAt }));
    }
    startsAt = cut.nextAt;
  }
  return {
    task: ask.task,
    language: language ?? recogniser.languages[0] ?? "en",
    seconds,
    text: segments
      .map(({ text }) => text)
      .join("")
      .trim(),
    segments,
    words: ask.wantsWords ? words : undefined,
    outputTokens,
  };
}

const momentSeconds = 0.2;

/** Returns the number of the window's samples to transcribe now. */
export function quietestCut(window: Float32Array, rate: number): number {
  const moment = Math.max(1, Math.round(momentSeconds * rate));
  const step = Math.max(1, Math.round(moment / 4));
  let best = window.length;
  let min = Number.POSITIVE_INFINITY;
  for (let at = Math.floor((window.length * 2) / 3); at + moment <= window.length; at += step) {
    let energy = 0;
    for (let i = at; i < at + moment; i += 1) energy += (window[i] as number) ** 2;
    // The later of two silences: fewer windows for the same recording.
    if (energy > min) continue;
    min = energy;
    best = at + Math.round(moment / 2);
  }
  return best;
}
