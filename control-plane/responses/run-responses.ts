// Runs responses in the background, and stores how they end.
import type { Logger } from "pino";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { type ClaimedRuns, createClaimedRuns, type RunError } from "../webhooks/claimed-runs.ts";
import { responsesFull, responseTooLarge } from "./errors.ts";
import {
  defaultLimits,
  maxResponseBytes,
  openContent,
  type ResponseSeal,
  type StoredContent,
  type StoredObject,
  sealContent,
} from "./responses.ts";
import type { ClaimedResponse, ResponseLimits, ResponseStore, StoredStatus } from "./store.ts";

export interface ResponseJob {
  readonly id: string;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly content: StoredContent;
  readonly createdAtMs: number;
  readonly bytes: number;
}

interface ResponseEnd {
  readonly status: StoredStatus;
  readonly response: StoredObject;
  /** Releases the memory of the response. */
  readonly letGo: () => void;
}

/**
 * Runs a response through admission, routing, relay and settlement. Returns undefined when `signal` aborted it. Throws as
 * complete() does, and UnusableAnswer for an unexpected engine response.
 */
export type RunResponse = (
  job: ResponseJob,
  caller: Caller,
  firstAttempt: number,
  signal: AbortSignal,
) => Promise<ResponseEnd | undefined>;

interface Answer extends ResponseEnd {
  readonly content: StoredContent;
}

export interface ResponseRuns extends Pick<ClaimedRuns<ClaimedResponse, Answer>, "wake" | "abort"> {
  run(runResponse: RunResponse, signal: AbortSignal): Promise<void>;
}

export function createResponseRuns(deps: {
  readonly store: Pick<ResponseStore, "claim" | "keep" | "requeue" | "end">;
  readonly seal: ResponseSeal;
  readonly limits?: ResponseLimits;
  readonly findCaller: (account: AccountId, key: KeyId) => Promise<Caller | undefined>;
  readonly maxBodyBytes: number;
  readonly hasCapacity: () => boolean;
  readonly ran: (outcome: "succeeded" | "failed" | "requeued") => void;
  readonly log: Logger;
  readonly clockScale: number;
  readonly claimScale: number;
}): ResponseRuns {
  const { store, seal } = deps;
  const maxBytes = deps.limits?.bytes ?? defaultLimits.bytes;
  const contentOf = ({ account, id, sealed }: ClaimedResponse) => openContent(seal, account, id, sealed);

  /** Returns false when another run took over. A response that passes a limit is stored as failed, without its output. */
  async function end(item: ClaimedResponse, status: StoredStatus, { items, response }: StoredContent) {
    const sealed = await sealContent(seal, item.account, { items, response });
    if (sealed.length > maxResponseBytes) return fail(item, responseTooLarge(maxResponseBytes), response["usage"]);
    const outcome = await store.end(item, status, sealed, maxBytes);
    if (outcome === "full") return fail(item, responsesFull(maxBytes), response["usage"]);
    return outcome === "ended";
  }

  async function fail(
    item: ClaimedResponse,
    { message }: Pick<RunError, "message">,
    usage?: unknown,
  ): Promise<boolean> {
    const { items, response: queued } = await contentOf(item);
    const error = { code: "server_error", message };
    const response = { ...queued, status: "failed", error, ...(usage === undefined ? {} : { usage }) };
    // Not larger than the request that was queued, up to its error.
    const sealed = await sealContent(seal, item.account, { items, response });
    return (await store.end(item, "failed", sealed)) === "ended";
  }

  const runs = createClaimedRuns<ClaimedResponse, Answer>({
    ...deps,
    what: "background response",
    bytesOf: ({ sealed }) => sealed.length,
    logged: ({ id, account }) => ({ responseId: id, account }),
    queue: {
      claim: store.claim,
      keep: store.keep,
      requeue: ({ id, claim }, afterMs, isFault) => store.requeue(id, claim, afterMs, isFault),
      end: (item, result) =>
        "answer" in result
          ? end(item, result.answer.status, { ...result.answer.content, response: result.answer.response })
          : fail(item, result.error),
    },
  });
  return {
    wake: runs.wake,
    abort: runs.abort,
    run: (runResponse, signal) =>
      runs.run(async (item, caller, firstAttempt, stop) => {
        const content = await contentOf(item);
        const { id, account, key, createdAtMs, sealed } = item;
        const job = { id, account, key, content, createdAtMs, bytes: sealed.length };
        const ended = await runResponse(job, caller, firstAttempt, stop);
        return ended && { ...ended, content };
      }, signal),
  };
}
