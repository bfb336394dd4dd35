import type { Responses } from "../../proto/gen/responses.ts";
import { text } from "../text/request-log.ts";
import { count } from "../ui/format.ts";

// Text of the end reasons of requests.

type OperatorsRequest = Responses["GET /v1/admin/requests"]["requests"][number];

/** Operators also receive the account, the deployment and the instance. */
export type LoggedRequest = Responses["GET /v1/requests"]["requests"][number] &
  Partial<Pick<OperatorsRequest, "account" | "account_email" | "deploy_id" | "instance_id">>;

interface Ending {
  readonly label: string;
  readonly isFailure: boolean;
  readonly means: string;
}

const endings: Readonly<Record<string, Ending>> = {
  stop: { label: "completed", isFailure: false, means: "The response was sent completely." },
  client_gone: {
    label: "client disconnected",
    isFailure: false,
    means:
      "Client disconnected. Tokens generated so far are billed. If this was a timeout, raise the time limit of the client.",
  },
  refused: {
    label: "rejected",
    isFailure: true,
    means: "The model server rejected the request. The response names the invalid field. Nothing is billed.",
  },
  engine_error: {
    label: "failed",
    isFailure: true,
    means: "The model server failed. Retry. If it fails again, check the log of the deployment.",
  },
  engine_timeout: {
    label: "timed out",
    isFailure: true,
    means: "The model server stopped responding. Retry, with a lower max_tokens if the response was long.",
  },
  drained: {
    label: "cancelled by drain",
    isFailure: true,
    means: "The host was drained and the request ran past the drain deadline. Retry.",
  },
  lost: {
    label: "host lost",
    isFailure: true,
    means: "The host became unreachable. Only delivered output is billed. Retry.",
  },
};

export const endingOf = (reason: string): Ending =>
  endings[reason] ?? { label: reason, isFailure: true, means: reason };

/** True if the answer was sent in one piece: its first byte then says nothing of the first token. */
export const isWhole = (one: Pick<LoggedRequest, "first_byte_ms" | "total_ms" | "output_tokens">): boolean =>
  one.output_tokens > 1 && one.first_byte_ms > 0 && one.total_ms - one.first_byte_ms < 10;

/** Milliseconds until the first token of a streamed answer. Null: it came in one piece, or there was none. */
export const firstTokenMs = (one: Parameters<typeof isWhole>[0]): number | null =>
  one.output_tokens === 0 || one.first_byte_ms === 0 || isWhole(one) ? null : one.first_byte_ms;

/** Tokens, or what the task counts instead of them: characters to speak, milliseconds of a recording. */
export const inputUnits = ({ input_tokens: tokens, characters, audio_ms: audio }: LoggedRequest): number =>
  tokens || characters || audio;

export function inputText({ input_tokens: tokens, characters, audio_ms: audio }: LoggedRequest): string {
  if (tokens === 0 && characters > 0) return text.units.characters(count(characters));
  if (tokens === 0 && audio > 0) return text.units.audio(count(Math.round(audio / 100) / 10));
  return count(tokens);
}

/** Tokens, or images. */
export const outputUnits = ({ output_tokens: tokens, images }: LoggedRequest): number => tokens || images;

export const outputText = ({ output_tokens: tokens, images }: LoggedRequest): string =>
  tokens === 0 && images > 0 ? text.units.images(images) : count(tokens);

/** Phases of a request in ms: queue, then until the first byte, then until the end. */
export function phasesOf({
  queue_ms: queue,
  first_byte_ms: first,
  total_ms: total,
}: Pick<LoggedRequest, "queue_ms" | "first_byte_ms" | "total_ms">): {
  readonly queue: number;
  readonly prefill: number;
  readonly decode: number;
} {
  const started = first > 0 ? first : total;
  return {
    queue: Math.min(queue, started),
    prefill: Math.max(0, started - queue),
    decode: Math.max(0, total - started),
  };
}
