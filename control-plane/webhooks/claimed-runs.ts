// Runs requests that wait in a table: each goes through the spine under a claim. The claim of a control plane that dies expires;
// the next run's attempts void those of the previous one.
import type { Logger } from "pino";
import { type AccountId, type KeyId, randomId } from "../../proto/ids.ts";
import { pause } from "../../proto/pause.ts";
import type { Caller } from "../accounts/caller.ts";
import { UnusableAnswer } from "../inference/errors.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import { AccountLoad, type LoadCapacity, mib } from "./account-load.ts";
import { createClaimLoop } from "./claim-loop.ts";
import { broken, expired, failureOf, hasBrokenTooOften, type JobFailure } from "./job-failure.ts";

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

export interface ClaimedItem {
  readonly claim: string;
  readonly account: AccountId;
  readonly key: KeyId;
  readonly isExpired: boolean;
  /** Number of this run, from 1. */
  readonly claims: number;
  readonly faults: number;
}

export interface RunError {
  readonly code: string;
  readonly message: string;
}

/** The table, and what ends a request in it. */
export interface RunQueue<Item extends ClaimedItem, Answer> {
  claim(
    params: LoadCapacity & { readonly claim: string; readonly limit: number; readonly lockMs: number },
  ): Promise<readonly Item[]>;
  /** Renews these claims; returns those that are still valid. */
  keep(claims: readonly string[], lockMs: number): Promise<ReadonlySet<string>>;
  /** Returns the request to the queue. No effect when another run took over. */
  requeue(item: Item, afterMs: number, isFault: boolean): Promise<void>;
  /**
   * Stores the end of a request: its answer, or the error. Returns false when another run took over. Throws DatabaseUnavailable;
   * after any other error the answer cannot be stored.
   */
  end(item: Item, result: { readonly answer: Answer } | { readonly error: RunError }): Promise<boolean>;
}

/**
 * Runs a request through admission, routing, relay and settlement, its attempts numbered from `firstAttempt`. Returns undefined
 * when `signal` aborted it. Throws as complete() does, and UnusableAnswer for an unexpected engine response.
 */
export type RunItem<Item, Answer> = (
  item: Item,
  caller: Caller,
  firstAttempt: number,
  signal: AbortSignal,
) => Promise<Answer | undefined>;

export interface ClaimedRunsDeps<Item extends ClaimedItem, Answer> {
  /** For the log: `webhook request`. */
  readonly what: string;
  readonly queue: RunQueue<Item, Answer>;
  readonly bytesOf: (item: Item) => number;
  /** Fields of the item's log line. */
  readonly logged: (item: Item) => object;
  /** Returns a live key of a live account, or undefined. */
  readonly findCaller: (account: AccountId, key: KeyId) => Promise<Caller | undefined>;
  /** Maximum bytes of bodies in memory, except for a single larger one. */
  readonly maxBodyBytes: number;
  /** True when another response may be buffered until it is stored. */
  readonly hasCapacity: () => boolean;
  readonly ran: (outcome: "succeeded" | "failed" | "requeued") => void;
  readonly log: Logger;
  /** 1 in production. Smaller in tests: pauses and, separately, claims are shorter by this factor. */
  readonly clockScale: number;
  readonly claimScale: number;
}

export interface ClaimedRuns<Item, Answer> {
  wake(): void;
  /** Stops a run of this process whose item matches; its end has no effect when the item was ended before. */
  abort(matches: (item: Item) => boolean): void;
  /** Runs until the signal aborts; running items then have `stopGraceMs` before they return to the queue. */
  run(runItem: RunItem<Item, Answer>, signal: AbortSignal): Promise<void>;
}

export function createClaimedRuns<Item extends ClaimedItem, Answer extends { readonly letGo?: () => void }>(
  deps: ClaimedRunsDeps<Item, Answer>,
): ClaimedRuns<Item, Answer> {
  const { queue, what } = deps;
  const claimMs = lockMs * deps.claimScale;
  const max = Math.min(maxBytes, deps.maxBodyBytes);
  const load = new AccountLoad({ maxPerAccount, maxBytes: max, maxBytesPerAccount: max / 2 });
  const running = new Map<string, { readonly item: Item; readonly abort: AbortController }>();
  let runItem: RunItem<Item, Answer> | undefined;

  async function work(item: Item): Promise<void> {
    const startedMs = performance.now();
    const abort = new AbortController();
    running.set(item.claim, { item, abort });
    try {
      const outcome = await attempt(item, abort.signal);
      const ms = Math.round(performance.now() - startedMs);
      deps.log.info({ ...deps.logged(item), run: item.claims, outcome, ms }, what);
    } finally {
      running.delete(item.claim);
      load.ended(item.account, deps.bytesOf(item));
    }
  }

  async function attempt(item: Item, signal: AbortSignal): Promise<string> {
    if (item.isExpired) return end(item, { error: expired });
    if (hasBrokenTooOften(item.faults)) return end(item, { error: broken });
    let answer: Answer | undefined;
    try {
      const caller = await deps.findCaller(item.account, item.key);
      if (!caller) return await end(item, { error: keyEnded });
      answer = await (runItem as RunItem<Item, Answer>)(item, caller, (item.claims - 1) * attemptsOfRun, signal);
    } catch (error) {
      return fail(item, failureOf(error, item), error);
    }
    // Aborted here: another process or a later run continues it.
    if (!answer) return requeue(item, 0, false);
    try {
      return await end(item, { answer });
    } catch (error) {
      // Another control plane stores the end of its own run. Any other error would come again, and each run is billed.
      if (error instanceof DatabaseUnavailable) throw error;
      deps.log.warn({ err: error, ...deps.logged(item) }, `${what}: its answer cannot be stored`);
      return await fail(item, failureOf(new UnusableAnswer(error), item), error);
    } finally {
      answer.letGo?.();
    }
  }

  async function fail(item: Item, failure: JobFailure, error: unknown): Promise<string> {
    if (failure.kind === "over") return end(item, { error: failure.error });
    if (failure.isFault) deps.log.warn({ err: error, ...deps.logged(item) }, `${what} failed; will retry`);
    return requeue(item, failure.afterMs * deps.clockScale, failure.isFault);
  }

  async function requeue(item: Item, afterMs: number, isFault: boolean): Promise<string> {
    await queue.requeue(item, afterMs, isFault);
    deps.ran("requeued");
    return "requeued";
  }

  async function end(item: Item, result: { readonly answer: Answer } | { readonly error: RunError }): Promise<string> {
    if (!(await queue.end(item, result))) return "overtaken";
    deps.ran("answer" in result ? "succeeded" : "failed");
    return "answer" in result ? "succeeded" : result.error.code;
  }

  const loop = createClaimLoop<Item>({
    what: `${what}s`,
    maxConcurrent,
    idleMs: 1_000,
    log: deps.log,
    work,
    async claim(limit) {
      if (!deps.hasCapacity()) return [];
      const claimed = await queue.claim({ claim: randomId(16), limit, lockMs: claimMs, ...load.capacity() });
      for (const item of claimed) load.started(item.account, deps.bytesOf(item));
      return claimed;
    },
  });

  async function renewClaims(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(claimMs / 4, signal);
      const claims = [...running.keys()];
      if (signal.aborted || claims.length === 0) continue;
      try {
        const ours = await queue.keep(claims, claimMs);
        for (const claim of claims) if (!ours.has(claim)) running.get(claim)?.abort.abort();
      } catch {
        // Unreachable: storing the end shows whether another process took over.
      }
    }
  }

  return {
    wake: loop.wake,
    abort(matches) {
      for (const { item, abort } of running.values()) if (matches(item)) abort.abort();
    },
    async run(run, signal) {
      runItem = run;
      const over = new AbortController();
      const renewals = renewClaims(over.signal);
      let grace: NodeJS.Timeout | undefined;
      signal.addEventListener(
        "abort",
        () => {
          grace = setTimeout(() => {
            for (const { abort } of running.values()) abort.abort();
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
