// A transcript in each response format. Pure.
import { deflateSync } from "node:zlib";
import type { Segment, Transcript } from "./transcribe.ts";

export const transcriptForms = ["json", "verbose_json", "text", "srt", "vtt"] as const;
export type TranscriptForm = (typeof transcriptForms)[number];

export interface Rendered {
  readonly contentType: string;
  readonly body: string;
}

export function renderTranscript(transcript: Transcript, form: TranscriptForm, showsSegments: boolean): Rendered {
  switch (form) {
    case "json":
      return json({ text: transcript.text });
    case "verbose_json":
      return json(verbose(transcript, showsSegments));
    case "text":
      return plain(`${transcript.text}\n`);
    case "srt":
      return plain(transcript.segments.map((segment, index) => `${index + 1}\n${cue(segment, ",")}\n`).join("\n"));
    case "vtt":
      return {
        contentType: "text/vtt; charset=utf-8",
        body: `WEBVTT\n\n${transcript.segments.map((segment) => `${cue(segment, ".")}\n`).join("\n")}`,
      };
  }
}

function verbose({ task, language, seconds, text, segments, words }: Transcript, showsSegments: boolean) {
  return {
    task,
    language: languageName(language),
    duration: rounded(seconds),
    text,
    ...(showsSegments && { segments: segments.map(verboseSegment) }),
    ...(words && { words: words.map(({ word, start, end }) => ({ word, start: rounded(start), end: rounded(end) })) }),
  };
}

function verboseSegment({ id, start, end, text, tokens }: Segment) {
  const bytes = Buffer.from(text);
  return {
    id,
    // In frames of 10 ms, as the first whisper counted.
    seek: Math.round(start * 100),
    start: rounded(start),
    end: rounded(end),
    text,
    tokens,
    compression_ratio: Number((bytes.length / deflateSync(bytes).length).toFixed(4)),
  };
}

const names = new Intl.DisplayNames(["en"], { type: "language" });

/** `english` for `en`. */
export function languageName(code: string): string {
  return (names.of(code) ?? code).toLowerCase();
}

function cue({ start, end, text }: Segment, point: string): string {
  // An empty line would end the cue, and `-->` begin another.
  const line = text.trim().replaceAll(/\s*\n\s*/g, " ");
  return `${clock(start, point)} --> ${clock(end, point)}\n${line.replaceAll("-->", "->")}`;
}

function clock(seconds: number, point: string): string {
  const ms = Math.round(seconds * 1000);
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  const [hours, minutes, rest] = [ms / 3_600_000, (ms / 60_000) % 60, (ms / 1000) % 60];
  return `${two(hours)}:${two(minutes)}:${two(rest)}${point}${String(ms % 1000).padStart(3, "0")}`;
}

const rounded = (seconds: number) => Number(seconds.toFixed(3));
const json = (value: object): Rendered => ({ contentType: "application/json", body: JSON.stringify(value) });
const plain = (body: string): Rendered => ({ contentType: "text/plain; charset=utf-8", body });
