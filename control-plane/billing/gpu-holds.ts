// Keeps the money of the next five minutes of every running instance reserved. Idempotent, so every replica may do it: amounts
// are computed under the lock of the instance's hold.
import type { Logger } from "pino";
import { minuteOf } from "../../proto/gpu-minute.ts";
import type { AccountId, DeploymentId, InstanceId, KeyId } from "../../proto/ids.ts";
import { type Clock, systemClock } from "./clock.ts";
import { type HoldRefusal, holdAhead, type Span, spanAhead } from "./gpu-hold.ts";
import { costOfMinutes } from "./gpu-price.ts";
import type { GpuInstance, GpuTimeStore } from "./gpu-store.ts";
import { type BudgetScope, monthScopes } from "./scopes.ts";

export interface RefusedHold {
  readonly instance: InstanceId;
  readonly deployId: DeploymentId;
  readonly account: AccountId;
  readonly why: HoldRefusal;
  /** Time that the previous hold still lasts; 0: nothing is held. */
  readonly leftMs: number;
}

export interface GpuHolds {
  /** `running`: ready instances of reachable hosts. Ends the holds of all others. Throws DatabaseUnavailable. */
  renew(running: readonly GpuInstance[]): Promise<readonly RefusedHold[]>;
  /** Nano-USD that `count` new instances hold for their first minutes. */
  firstMinutes(gpu: string, gpusPerInstance: number, count: number, of: PayingFor): Promise<bigint>;
}

export interface PayingFor {
  readonly account: AccountId;
  /** Public name; empty: none yet, so no discount of one model applies. */
  readonly model: string;
}

function monthsOf(account: AccountId, { fromMs, untilMs }: Span): BudgetScope[] {
  const owner = { account, key: "" as KeyId };
  const months = [fromMs, untilMs - 1].flatMap((atMs) => monthScopes(owner, atMs));
  return [...new Map(months.map((month) => [month.budgetId, month])).values()];
}

/** Time after the stop of an instance in which its last minute ends and its record arrives. */
const releaseAfterMs = 3 * 60_000;

export function createGpuHolds(deps: {
  readonly store: GpuTimeStore;
  readonly log: Logger;
  readonly clock?: Clock;
}): GpuHolds {
  const { store, log } = deps;
  const clock = deps.clock ?? systemClock;
  return {
    async renew(running) {
      const nowMs = clock.unixMs();
      const refused: RefusedHold[] = [];
      const untilMs = await store.coveredUntil(running.map((one) => one.instance));
      for (const one of running) {
        const heldUntilMs = untilMs.get(one.instance) ?? 0;
        if (heldUntilMs >= spanAhead(nowMs).untilMs) continue;
        const verdict = await store.renew(one, monthsOf(one.account, spanAhead(nowMs)), (found) =>
          holdAhead(found, one.gpus, nowMs),
        );
        if (verdict.kind === "held") continue;
        const { instance, deployId, account } = one;
        refused.push({ instance, deployId, account, why: verdict.why, leftMs: Math.max(0, heldUntilMs - nowMs) });
      }
      await store.endStopped(nowMs);
      const released = await store.release(nowMs - releaseAfterMs);
      if (released > 0) log.info({ released }, "holds of GPU time released");
      return refused;
    },
    async firstMinutes(gpu, gpusPerInstance, count, of) {
      const { fromMs, untilMs } = spanAhead(minuteOf(clock.unixMs()));
      return costOfMinutes(await store.tariff(gpu, of), gpusPerInstance, fromMs, untilMs) * BigInt(count);
    },
  };
}
