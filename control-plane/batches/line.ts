// How one line is run, and what is written of it. `RunLine` is implemented by the HTTP edge, which reads, validates and
// answers it as the same request by itself.
import type { RequestId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { type BatchEndpoint, type BatchId, type BatchTokens, mostOutputBytes } from "./batch.ts";

export interface LineWork {
  readonly caller: Caller;
  readonly endpoint: BatchEndpoint;
  /** The line as it stands in the file: its `body` is the request. */
  readonly text: string;
  /** The same at every run of a line: money is taken once for it. */
  readonly requestId: RequestId;
  /** Attempts before this one, those of earlier runs included: no number is used twice. */
  readonly attempts: number;
  /** Unix ms; one moment for all attempts. */
  readonly admittedAtMs: number;
}

export type LineAnswer =
  | {
      readonly kind: "answered";
      readonly status: number;
      /** JSON, in one line. */
      readonly body: string;
      readonly tokens: BatchTokens | undefined;
      /** The answer is not needed in memory any more. */
      readonly letGo?: () => void;
    }
  /** Another try may go better; `otherwise` is what it is if none is made. */
  | {
      readonly kind: "again";
      /** `busy`: nothing ran, and it may be tried for as long as there is time. */
      readonly why: "busy" | "funds" | "broken";
      readonly afterMs: number;
      readonly attempts: number;
      readonly otherwise: { readonly status: number; readonly body: string };
    }
  /** The signal fired. */
  | { readonly kind: "stopped" };

export type RunLine = (work: LineWork, signal: AbortSignal) => Promise<LineAnswer>;

/** Room for the attempts of one run of a batch: a line is tried far less often. */
const attemptsPerRun = 1 << 20;
export const attemptsBefore = (run: number): number => (run - 1) * attemptsPerRun;

export const requestIdOf = (batch: BatchId, line: number): RequestId => `${batch}_${line}` as RequestId;

/** A line of the output file, or with an error status of the error file. */
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

const gib = mostOutputBytes / 1024 ** 3;
const reasons: Readonly<Record<NotRun, string>> = {
  batch_expired: "This request was not begun before the completion window of the batch ended. It was not billed.",
  batch_cancelled: "This request was not begun before the batch was cancelled. It was not billed.",
  batch_output_full:
    `This request was not begun because the answers of its batch had come to ${gib} GiB, the limit. It was not billed. ` +
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
