// Counts failed attempts, delays the next one, and gives up with the reason.
import type { InstanceId } from "../../proto/ids.ts";
import type { RestartReason } from "../../proto/instance-phase.ts";
import { afterCrash, afterCrashByRequest, type BackOff } from "./back-off.ts";
import type { Step } from "./diff.ts";
import type { LogLine } from "./driver.ts";
import { type Failure, gaveUp } from "./failure.ts";
import type { StepDeps } from "./step-deps.ts";

type Attempt = Pick<Step, "kind" | "id">;

interface How {
  readonly isTerminal: boolean;
  readonly backOff: BackOff;
  readonly upMs?: number | undefined;
  /** Deaths at which the request that caused this one was present; 0 or undefined: no such request is known. */
  readonly deathsByRequest?: number;
}

export type Attempts = ReturnType<typeof createAttempts>;

const logLimitMs = 15_000;

export function createAttempts(deps: StepDeps) {
  const { book, clock, driver } = deps;

  async function tail(step: Attempt): Promise<readonly LogLine[]> {
    if (step.kind === "fetch") return [];
    return driver.logs(step.id, { limit: 100 }, AbortSignal.timeout(logLimitMs)).catch(() => []);
  }

  return {
    tail,
    /** Terminal when there were too many failures, or when a retry cannot help. */
    async failed(step: Attempt, why: Failure, { isTerminal, backOff, upMs = 0, deathsByRequest = 0 }: How) {
      const nowMs = clock();
      const before = book.get(step.id);
      if (deathsByRequest > 0 && !isTerminal) {
        const all = [...before.crashes, ...before.crashesByRequest];
        const notBeforeMs = afterCrashByRequest(all, nowMs, deps.random(), backOff);
        // The earlier deaths of the same request were counted before it was recognised.
        const own = before.crashes.slice(Math.max(0, before.crashes.length - (deathsByRequest - 1)));
        book.change(step.id, (facts) => ({
          ...facts,
          crashes: before.crashes.slice(0, before.crashes.length - own.length),
          crashesByRequest: [...before.crashesByRequest, ...own, nowMs].filter((at) => nowMs - at < backOff.windowMs),
          lastCrash: why,
          weights: { kind: "unknown" },
          notBeforeMs,
        }));
        const seen = { instance: step.id, code: why.code, why: why.message, deaths: deathsByRequest };
        deps.log.warn({ ...seen, retryInMs: Math.round(notBeforeMs - nowMs) }, "instance stopped by a request");
        return;
      }
      const { crashes, next } = afterCrash(before.crashes, upMs, nowMs, deps.random(), backOff);
      const isLast = next.kind === "give-up";
      const failure = isLast && !isTerminal ? gaveUp(why, crashes.length, await tail(step)) : why;
      const isOver = isTerminal || isLast;
      book.change(step.id, (facts) => ({
        ...facts,
        crashes,
        lastCrash: why,
        // The weights may have been evicted before the next attempt; checking is cheap.
        weights: { kind: "unknown" },
        failure: isOver ? failure : facts.failure,
        notBeforeMs: isLast ? facts.notBeforeMs : next.atMs,
      }));
      const facts = { instance: step.id, code: why.code, why: why.message, attempts: crashes.length };
      if (isOver || isLast) deps.log.error(facts, "instance failed");
      else deps.log.warn({ ...facts, retryInMs: Math.round(next.atMs - nowMs) }, "instance will be tried again");
    },
    restarted(id: InstanceId, deployId: string, reason: RestartReason) {
      book.change(id, (facts) => ({ ...facts, restarts: facts.restarts + 1 }));
      deps.metrics.restarted(deployId as Parameters<typeof deps.metrics.restarted>[0], reason);
    },
  };
}
