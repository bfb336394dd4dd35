// Attempts that failed: counted, spaced, and given up with their reason.
import type { InstanceId } from "../../proto/ids.ts";
import { afterCrash, type BackOff } from "./back-off.ts";
import type { Step } from "./diff.ts";
import type { LogLine } from "./driver.ts";
import { type Failure, gaveUp } from "./failure.ts";
import type { RestartReason } from "./ports.ts";
import type { StepDeps } from "./step-deps.ts";

type Attempt = Pick<Step, "kind" | "id">;

export interface How {
  readonly isTerminal: boolean;
  readonly backOff: BackOff;
  /** How long it ran before it failed. */
  readonly upMs?: number | undefined;
}

export interface Attempts {
  /** The last of too many is terminal, as is one that trying again cannot mend. */
  failed(step: Attempt, why: Failure, how: How): Promise<void>;
  restarted(id: InstanceId, deployId: string, reason: RestartReason): void;
  /** The last lines of the instance's log; none when they cannot be had. */
  tail(step: Attempt): Promise<readonly LogLine[]>;
}

const logLimitMs = 15_000;

export function createAttempts(deps: StepDeps): Attempts {
  const { book, clock, driver } = deps;

  async function tail(step: Attempt): Promise<readonly LogLine[]> {
    if (step.kind === "fetch") return [];
    return driver.logs(step.id, { limit: 100 }, AbortSignal.timeout(logLimitMs)).catch(() => []);
  }

  return {
    tail,
    async failed(step, why, { isTerminal, backOff, upMs = 0 }) {
      const nowMs = clock();
      const before = book.get(step.id);
      const { crashes, next } = afterCrash(before.crashes, upMs, nowMs, deps.random(), backOff);
      const isLast = next.kind === "give-up";
      const failure = isLast && !isTerminal ? gaveUp(why, crashes.length, await tail(step)) : why;
      const isOver = isTerminal || isLast;
      book.change(step.id, (facts) => ({
        ...facts,
        crashes,
        lastCrash: why,
        // The next attempt may find the weights gone; looking costs little.
        weights: { kind: "unknown" },
        failure: isOver ? failure : facts.failure,
        notBeforeMs: isLast ? facts.notBeforeMs : next.atMs,
      }));
      const told = { instance: step.id, code: why.code, why: why.message, attempts: crashes.length };
      if (isOver || isLast) deps.log.error(told, "instance failed");
      else deps.log.warn({ ...told, retryInMs: Math.round(next.atMs - nowMs) }, "instance will be tried again");
    },
    restarted(id, deployId, reason) {
      book.change(id, (facts) => ({ ...facts, restarts: facts.restarts + 1 }));
      deps.events.restarted(deployId as Parameters<typeof deps.events.restarted>[0], reason);
    },
  };
}
