// Engine paths that clients can reach; all others are refused.

import { type ApiFormat, formatPaths } from "../../proto/api-formats.ts";
import type { Ticket } from "../../proto/ticket.ts";

const enginePaths: ReadonlySet<string> = new Set([
  "/v1/completions",
  "/v1/chat/completions",
  formatPaths.responses,
  formatPaths.messages,
  "/v1/embeddings",
  "/v1/rerank",
  // Only text-embeddings-inference has it.
  "/rerank",
  "/v1/score",
  "/v1/classify",
  "/v1/moderations",
  "/v1/audio/speech",
  "/v1/audio/transcriptions",
  "/v1/audio/translations",
  // Recordings of a speaker -> a blend of the voices of our own runtime.
  "/v1/audio/voices",
  "/v1/images/generations",
  "/v1/images/edits",
  "/v1/images/variations",
  // Every other task of our own runtime.
  "/v1/infer",
  // Length of a prompt: of our runtime and vLLM, and in two steps of llama.cpp's server.
  "/tokenize",
  "/apply-template",
]);

export const isEnginePath = (path: string): boolean => enginePaths.has(path);

/** Format of replies under a path; undefined: a chat or another task. */
export function formatOf(path: string): ApiFormat | undefined {
  if (path === formatPaths.responses) return "responses";
  return path === formatPaths.messages ? "messages" : undefined;
}

/** Way in which an engine's events are read. */
export type Events = "tokens" | "bytes" | "refused";

/** Returns `tokens` for streamed text, `bytes` for events under an audio path, and otherwise `refused`. */
export function eventsOf({ units, stream }: Ticket, path: string): Events {
  if (units) return path.startsWith("/v1/audio/") ? "bytes" : "refused";
  return stream ? "tokens" : "refused";
}

/** Audio and pictures: their bytes pass as they arrive. Any other reply that is not an event stream is one complete answer. */
export function isBinary(contentType: string): boolean {
  return /^(audio|image|video)\/|^application\/octet-stream\b/.test(contentType);
}
