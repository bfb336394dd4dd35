// Runs accepted requests: each goes through the spine under a claim, and its end is stored together with the call that
// reports it. The claim of a control plane that dies expires; the next run's attempts void those of the previous one.

import { randomBytes } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { type AccountId, type KeyId, type RequestId, randomId } from "../../proto/ids.ts";
import type { Caller } from "../accounts/caller.ts";
import { AccountLoad, mib } from "./account-load.ts";
import { createClaimLoop } from "./claim-loop.ts";
import { callerOf, type JobAnswer, type RunJob } from "./job.ts";
import { broken, expired, failureOf, hasBrokenTooOften, type JobFailure } from "./job-failure.ts";
import type { WebhookMetrics } from "./metrics.ts";
import type { ResultsLinks } from "./results-link.ts";
import type { ClaimedJob, WebhookJobStore } from "./store.ts";

const maxConcurrent = 64;
/** Bodies contain files of tens of MiB. */
const maxBytes = 256 * mib;
const maxPerAccount = 32;
const lockMs = 20_000;
const stopGraceMs = 10_000;
/** Attempts reserved for one run, far more than it uses. */
const attemptsOfRun = 100;

const keyEnded = {
  code: "invalid_api_key",
  message: "The API key of this request was revoked or has expired. Send the request again with a valid key.",
} as const;

export interface JobsDeps {
  readonly store: Pick<WebhookJobStore, "claimJobs" | "keepJobs" | "endJob" | "requeueJob">;
  /** Returns a live key of a live account, or undefined. */
  readonly findCaller: (account: AccountId, key: KeyId) => Promise<Caller | undefined>;
  readonly links: Pick<ResultsLinks, "make">;
  /** Maximum bytes of bodies in memory, except for a single larger one. */
  readonly maxBodyBytes: number;
  readonly metrics: WebhookMetrics;
  readonly log: Logger;
  /** 1 in production. Smaller in tests: pauses and, separately, claims are shorter by this factor. */
  readonly clockScale: number;
  readonly claimScale: number;
  /** True when another response may be buffered until its call is stored. */
  readonly hasCapacity: () => boolean;
  /** Called when a delivery becomes due. */
  readonly onEnded: () => void;
  readonly unixMs?: () => number;
}

export function createJobRuns(deps: JobsDeps) {
  const unixMs = deps.unixMs ?? Date.now;
  const claimMs = lockMs * deps.claimScale;
  const most = Math.min(maxBytes, deps.maxBodyBytes);
  const load = new AccountLoad({ maxPerAccount, maxBytes: most, maxBytesPerAccount: most / 2 });
  const aborts = new Map<string, AbortController>();
  let runJob: RunJob | undefined;

  async function work(job: ClaimedJob): Promise<void> {
    const startedMs = performance.now();
    const abort = new AbortController();
    aborts.set(job.claim, abort);
    try {
      const outcome = await attempt(job, abort.signal);
      const ms = Math.round(performance.now() - startedMs);
      const { requestId, account, model, claims } = job;
      deps.log.info({ requestId, account, model, run: claims, outcome, ms }, "webhook request");
    } finally {
      aborts.delete(job.claim);
      load.ended(job.account, job.body.length);
    }
  }

  async function attempt(job: ClaimedJob, signal: AbortSignal): Promise<string> {
    if (job.isExpired) return end(job, undefined, expired);
    if (hasBrokenTooOften(job.faults)) return end(job, undefined, broken);
    let answer: JobAnswer | undefined;
    try {
      const now = await deps.findCaller(job.account, job.key);
      if (!now) return await end(job, undefined, keyEnded);
      const caller = callerOf(now, job.token);
      answer = await (runJob as RunJob)(job, caller, (job.claims - 1) * attemptsOfRun, signal);
    } catch (error) {
      return fail(job, failureOf(error, job), error);
    }
    // Aborted here: another process or a later run continues it.
    if (!answer) return requeue(job, 0, false);
    try {
      return await end(job, answer, undefined);
    } finally {
      answer.letGo?.();
    }
  }

  async function fail(job: ClaimedJob, failure: JobFailure, error: unknown): Promise<string> {
    if (failure.kind === "over") return end(job, undefined, failure.error);
    if (failure.isFault) deps.log.warn({ err: error, requestId: job.requestId }, "webhook request failed; will retry");
    return requeue(job, failure.afterMs * deps.clockScale, failure.isFault);
  }

  async function requeue(job: ClaimedJob, afterMs: number, isFault: boolean): Promise<string> {
    await deps.store.requeueJob(job.requestId, job.claim, afterMs, isFault);
    deps.metrics.ran("requeued");
    return "requeued";
  }

  async function end(
    job: ClaimedJob,
    answer: JobAnswer | undefined,
    error: { readonly code: string; readonly message: string } | undefined,
  ): Promise<string> {
    const { requestId, claim, origin } = job;
    const nowMs = unixMs();
    const { body, results } = callbackOf(requestId, answer, () => deps.links.make(origin, requestId, nowMs));
    const isOurs = await deps.store.endJob({ requestId, claim, error, webhookId: makeWebhookId(nowMs), body, results });
    if (!isOurs) return "overtaken";
    deps.onEnded();
    deps.metrics.ran(answer ? "succeeded" : "failed");
    return answer ? "succeeded" : (error?.code ?? "failed");
  }

  const loop = createClaimLoop<ClaimedJob>({
    what: "webhook requests",
    maxConcurrent,
    idleMs: 1_000,
    log: deps.log,
    work,
    async claim(limit) {
      if (!deps.hasCapacity()) return [];
      const claimed = await deps.store.claimJobs({ claim: randomId(16), limit, lockMs: claimMs, ...load.capacity() });
      for (const { account, body } of claimed) load.started(account, body.length);
      return claimed;
    },
  });

  async function renewClaims(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await wait(claimMs / 4, undefined, { signal }).catch(() => {});
      const claims = [...aborts.keys()];
      if (signal.aborted || claims.length === 0) continue;
      try {
        const ours = await deps.store.keepJobs(claims, claimMs);
        for (const claim of claims) if (!ours.has(claim)) aborts.get(claim)?.abort();
      } catch {
        // Unreachable: storing the end shows whether another process took over.
      }
    }
  }

  return {
    wake: loop.wake,
    /** Runs until the signal aborts; running jobs then have `stopGraceMs` before they return to the queue. */
    async run(run: RunJob, signal: AbortSignal): Promise<void> {
      runJob = run;
      const over = new AbortController();
      const renewals = renewClaims(over.signal);
      let grace: NodeJS.Timeout | undefined;
      signal.addEventListener(
        "abort",
        () => {
          grace = setTimeout(() => {
            for (const abort of aborts.values()) abort.abort();
          }, stopGraceMs);
        },
        { once: true },
      );
      await loop.run(signal);
      clearTimeout(grace);
      over.abort();
      await renewals;
    },
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
