// Port that runs one line, and its result. The HTTP edge implements `RunLine`: it handles a line like the same single request.
import type { RequestId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { type BatchEndpoint, type BatchId, type BatchTokens, maxOutputBytes } from "./batch.ts";

export interface LineWork {
  readonly caller: Caller;
  readonly endpoint: BatchEndpoint;
  /** The line of the file: its `body` is the request. */
  readonly text: string;
  /** The same for every run of a line, so that it is charged once. */
  readonly requestId: RequestId;
  /** Attempts before this one, including earlier runs: no number is used twice. */
  readonly attempts: number;
  /** Unix ms; the same for all attempts. */
  readonly admittedAtMs: number;
}

export type LineAnswer =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** JSON on one line. */
      readonly body: string;
      readonly tokens: BatchTokens | undefined;
      /** Releases the memory of the response. */
      readonly letGo?: () => void;
    }
  /** A retry may succeed; `otherwise` is the result without one. */
  | {
      readonly kind: "again";
      /** `busy`: nothing ran; retry while time is left. */
      readonly why: "busy" | "funds" | "broken";
      readonly afterMs: number;
      readonly attempts: number;
      readonly otherwise: { readonly status: number; readonly body: string };
    }
  /** The signal aborted it. */
  | { readonly kind: "stopped" };

export type RunLine = (work: LineWork, signal: AbortSignal) => Promise<LineAnswer>;

/** Attempt numbers reserved per run of a batch, far more than it uses. */
const attemptsPerRun = 1 << 20;
export const attemptsBefore = (run: number): number => (run - 1) * attemptsPerRun;

export const requestIdOf = (batch: BatchId, line: number): RequestId => `${batch}_${line}` as RequestId;

/** Returns a line of the output file, or of the error file for an error status. */
export function answeredLine(
  batch: BatchId,
  line: number,
  customId: string,
  answer: { readonly status: number; readonly body: string },
): string {
  const id = requestIdOf(batch, line);
  const response = `{"status_code":${answer.status},"request_id":"${id}","body":${answer.body}}`;
  return `{"id":"batch_req_${id.slice(6)}","custom_id":${JSON.stringify(customId)},"response":${response},"error":null}`;
}

export type NotRun = "batch_expired" | "batch_cancelled" | "batch_output_full";

const gib = maxOutputBytes / 1024 ** 3;
const reasons: Readonly<Record<NotRun, string>> = {
  batch_expired: "This request did not start before the completion window of the batch ended. It was not billed.",
  batch_cancelled: "This request did not start before the batch was cancelled. It was not billed.",
  batch_output_full:
    `This request did not start because the responses of its batch reached the limit of ${gib} GiB. It was not billed. ` +
    "Send it in another batch.",
};

export function notRunLine(batch: BatchId, line: number, customId: string, why: NotRun): string {
  return JSON.stringify({
    id: `batch_req_${requestIdOf(batch, line).slice(6)}`,
    custom_id: customId,
    response: null,
    error: { code: why, message: reasons[why] },
  });
}
