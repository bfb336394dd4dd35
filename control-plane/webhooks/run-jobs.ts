// Runs accepted requests: the end of each is stored together with the call that reports it.
import { randomBytes } from "node:crypto";
import type { Logger } from "pino";
import type { AccountId, KeyId, RequestId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import type { Caller } from "../accounts/caller.ts";
import { createClaimedRuns, type RunError } from "./claimed-runs.ts";
import { callerOf, type JobAnswer, type RunJob } from "./job.ts";
import type { WebhookMetrics } from "./metrics.ts";
import type { ResultsLinks } from "./results-link.ts";
import type { ClaimedJob, WebhookJobStore } from "./store.ts";

export interface JobsDeps {
  readonly store: Pick<WebhookJobStore, "claimJobs" | "keepJobs" | "endJob" | "requeueJob">;
  /** Returns a live key of a live account, or undefined. */
  readonly findCaller: (account: AccountId, key: KeyId) => Promise<Caller | undefined>;
  readonly links: Pick<ResultsLinks, "make">;
  readonly maxBodyBytes: number;
  readonly metrics: WebhookMetrics;
  readonly log: Logger;
  readonly clockScale: number;
  readonly claimScale: number;
  readonly hasCapacity: () => boolean;
  /** Called when a delivery becomes due. */
  readonly onEnded: () => void;
  readonly unixMs?: () => number;
}

export function createJobRuns(deps: JobsDeps) {
  const { store, links } = deps;
  const unixMs = deps.unixMs ?? steadyTime.nowMs;

  async function end(
    { requestId, claim, origin }: ClaimedJob,
    answer: JobAnswer | undefined,
    error: RunError | undefined,
  ): Promise<boolean> {
    const nowMs = unixMs();
    const { body, results } = callbackOf(requestId, answer, () => links.make(origin, requestId, nowMs));
    const isOurs = await store.endJob({ requestId, claim, error, webhookId: makeWebhookId(nowMs), body, results });
    if (isOurs) deps.onEnded();
    return isOurs;
  }

  const runs = createClaimedRuns<ClaimedJob, JobAnswer>({
    ...deps,
    what: "webhook request",
    ran: deps.metrics.ran,
    bytesOf: ({ body }) => body.length,
    logged: ({ requestId, account, model }) => ({ requestId, account, model }),
    queue: {
      claim: (params) => store.claimJobs(params),
      keep: (claims, lockMs) => store.keepJobs(claims, lockMs),
      requeue: ({ requestId, claim }, afterMs, isFault) => store.requeueJob(requestId, claim, afterMs, isFault),
      end: (job, result) =>
        "answer" in result ? end(job, result.answer, undefined) : end(job, undefined, result.error),
    },
  });
  return {
    wake: runs.wake,
    run: (runJob: RunJob, signal: AbortSignal): Promise<void> =>
      runs.run((job, now, firstAttempt, stop) => runJob(job, callerOf(now, job.token), firstAttempt, stop), signal),
  };
}

export type RunningJobs = ReturnType<typeof createJobRuns>;

// Body of a webhook call: the interface's format without a wrapper, serialised once. Pure.
/** Larger calls carry a link instead of the results. */
const maxCallBytes = 5 * 1024 * 1024;

interface Callback {
  readonly body: Buffer;
  /** Content behind the link in the body. */
  readonly results: Buffer | undefined;
}

function callbackOf(requestId: RequestId, answer: JobAnswer | undefined, linkOf: () => string): Callback {
  const status = answer ? "succeeded" : "failed";
  const inference_status = { status, runtime_ms: answer?.runtimeMs ?? 0, cost: answer?.cost ?? 0 };
  const serialise = (results?: object) =>
    Buffer.from(JSON.stringify({ request_id: requestId, inference_status, results }));
  if (!answer) return { body: serialise(), results: undefined };
  const full = serialise(answer.results);
  if (full.length <= maxCallBytes) return { body: full, results: undefined };
  return { body: serialise({ results_url: linkOf() }), results: Buffer.from(JSON.stringify(answer.results)) };
}

const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** Returns `msg_` and a ULID: 48 bits of time, 80 random bits, in Crockford's base 32. Sorts by time. */
export function makeWebhookId(unixMs: number): string {
  let bits = (BigInt(unixMs) << 80n) | BigInt(`0x${randomBytes(10).toString("hex")}`);
  let text = "";
  for (let i = 0; i < 26; i++) {
    text = (letters[Number(bits & 31n)] as string) + text;
    bits >>= 5n;
  }
  return `msg_${text}`;
}
