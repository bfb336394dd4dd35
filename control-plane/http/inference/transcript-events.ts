// Transcripts as server-sent events in OpenAI's format, from the events of our runtime, of vLLM and of OpenAI's own servers, or from
// one complete transcript.
import type { StreamTranslation } from "./translated-stream.ts";
import { dataFrame } from "./translated-stream.ts";

export type TranscriptPart =
  | { readonly kind: "delta"; readonly text: string }
  /** The whole transcript. */
  | { readonly kind: "whole"; readonly text: string }
  | { readonly kind: "error"; readonly error: object };

/** `data`: the text after `data:` of an engine's event, or a complete reply. Undefined: it has no text. */
export function readTranscript(data: string): TranscriptPart | undefined {
  let event: unknown;
  try {
    event = JSON.parse(data);
  } catch {
    return undefined;
  }
  if (typeof event !== "object" || event === null) return undefined;
  const { type, delta, text, choices, error } = event as Readonly<Record<string, unknown>>;
  if (error !== undefined && error !== null) return { kind: "error", error: errorOf(error) };
  if (type === "transcript.text.delta") return textPart("delta", delta);
  // A segment of a diarised transcript repeats text of the deltas.
  if (type === undefined || type === "transcript.text.done") {
    if (text !== undefined) return textPart("whole", text);
    const [choice] = Array.isArray(choices) ? (choices as { readonly delta?: { readonly content?: unknown } }[]) : [];
    return textPart("delta", choice?.delta?.content);
  }
  return undefined;
}

/** Texts only: other values may be nested too deep to be written. */
function errorOf(error: unknown): object {
  const { message, type, param, code } = Object(error) as Readonly<Record<string, unknown>>;
  const textOr = <Default>(value: unknown, otherwise: Default) => (typeof value === "string" ? value : otherwise);
  return {
    message: textOr(message, "The model server failed during the transcript."),
    type: textOr(type, "server_error"),
    param: textOr(param, null),
    code: textOr(code, null),
  };
}

const textPart = (kind: "delta" | "whole", text: unknown): TranscriptPart | undefined =>
  typeof text === "string" ? { kind, text } : undefined;

/** Maximum of a transcript. Engines have no limit of their own. */
export const maxTranscriptBytes = 4 * 1024 * 1024;

/** Joins the parts of one transcript. */
export class TranscriptText {
  #deltas = "";
  #whole: string | undefined;

  /** Returns the text to pass on now: "" for none. */
  add({ kind, text }: Exclude<TranscriptPart, { kind: "error" }>): string {
    const isFirst = this.#deltas === "";
    if (kind === "whole") {
      this.#whole = text;
      if (!isFirst) return "";
    }
    const passed = isFirst ? text.trimStart() : text;
    this.#deltas += passed;
    return passed;
  }

  get keptBytes(): number {
    return this.#deltas.length + (this.#whole?.length ?? 0);
  }

  get text(): string {
    return this.#whole ?? this.#deltas.trim();
  }
}

/** `usage`: called at the end. */
export function transcriptEvents(usage: () => object): StreamTranslation {
  const transcript = new TranscriptText();
  let hasFailed = false;
  return {
    maxKeptBytes: maxTranscriptBytes,
    keptBytes() {
      return transcript.keptBytes;
    },
    event(data) {
      const part = hasFailed ? undefined : readTranscript(data);
      if (!part) return "";
      if (part.kind === "error") {
        hasFailed = true;
        return dataFrame({ error: part.error });
      }
      const delta = transcript.add(part);
      return delta === "" ? "" : dataFrame({ type: "transcript.text.delta", delta });
    },
    end: () => (hasFailed ? "" : dataFrame({ type: "transcript.text.done", text: transcript.text, usage: usage() })),
  };
}
