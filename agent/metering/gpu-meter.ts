// Measures how long instances were ready, or slept, on GPUs. A span counts when the same process was observed so at both its ends:
// waiting, loading, draining, a crash between two observations, and time without an agent are not billed.
import type { Logger } from "pino";
import { asleepMinuteId, gpuMinuteId, minuteMs } from "../../proto/gpu-minute.ts";
import type { UsageRecord } from "../../proto/usage-record.ts";
import type { Serving } from "../reconcile/ports.ts";
import type { MeterStore } from "./store.ts";
import { addSpan, type Tally } from "./tally.ts";

interface GpuMeterDeps {
  readonly store: MeterStore;
  readonly monotonicMs: () => number;
  readonly controlTimeMs: () => number;
  readonly nodeEpoch: () => bigint;
  readonly log: Logger;
}

/** A longer gap between two observations is not counted: the agent was suspended, and its data path with it. */
const longestSpanMs = minuteMs;
/** Part of a minute that a kill of the agent can lose, in the customer's favour. */
const saveEveryMs = 10_000;

export function createGpuMeter(deps: GpuMeterDeps) {
  const { store, log } = deps;
  // Whole milliseconds add up exactly.
  const monotonicMs = () => Math.floor(deps.monotonicMs());
  const tallies = new Map<string, { readonly tally: Tally; readonly grownMs: number }>();
  let identities: ReadonlyMap<string, string> = new Map();
  let lookedMs = monotonicMs();
  let savedMs = lookedMs;
  let isDirty = false;
  let isFailing = false;
  for (const tally of store.kept()) tallies.set(keyOf(tally), { tally, grownMs: lookedMs });

  /** Minutes that no longer change; the clock may have been set back since they started. */
  function takeOver(nowMs: number, controlMs: number): Tally[] {
    const over: Tally[] = [];
    for (const [id, { tally, grownMs }] of tallies) {
      if (grownMs === nowMs || (controlMs < tally.startMs + minuteMs && nowMs - grownMs < minuteMs)) continue;
      if (tally.readyMs > 0) over.push(tally);
      tallies.delete(id);
    }
    return over;
  }

  async function save(ended: readonly Tally[]): Promise<void> {
    savedMs = monotonicMs();
    isDirty = false;
    const epoch = deps.nodeEpoch().toString();
    try {
      await store.save(
        [...tallies.values()].map(({ tally }) => tally),
        ended.map((tally) => recordOf(tally, epoch)),
      );
      isFailing = false;
    } catch (error) {
      if (!isFailing) log.error({ err: error }, "could not store GPU time");
      isFailing = true;
    }
  }

  return {
    look(serving: readonly Serving[]): void {
      const nowMs = monotonicMs();
      const controlMs = Math.floor(deps.controlTimeMs());
      const lengthMs = nowMs - lookedMs;
      const ended: Tally[] = [];
      lookedMs = nowMs;
      for (const seen of serving) {
        const isSame = identities.get(keyOf(seen)) === seen.identity;
        if (!isSame || lengthMs <= 0 || lengthMs > longestSpanMs) continue;
        const added = addSpan(seen, tallies.get(keyOf(seen))?.tally, lengthMs, controlMs);
        ended.push(...added.ended);
        tallies.set(keyOf(seen), { tally: added.open, grownMs: nowMs });
        isDirty = true;
      }
      identities = new Map(serving.map((seen) => [keyOf(seen), seen.identity]));
      ended.push(...takeOver(nowMs, controlMs));
      if (ended.length > 0 || (isDirty && nowMs - savedMs >= saveEveryMs)) void save(ended);
    },
    /** Keeps what was begun for the next life of this agent. */
    close: (): Promise<void> => (isDirty ? save([]) : Promise.resolve()),
  };
}

/** The times awake and asleep of a minute are two records. */
const keyOf = ({ instanceId, isAsleep }: Pick<Serving, "instanceId" | "isAsleep">) =>
  isAsleep ? `${instanceId}/asleep` : instanceId;

function recordOf(tally: Tally, nodeEpoch: string): UsageRecord {
  return {
    requestId: (tally.isAsleep ? asleepMinuteId : gpuMinuteId)(tally.instanceId, tally.startMs),
    attempt: 1,
    admittedAtMs: tally.startMs,
    endedAtMs: tally.throughMs,
    instanceId: tally.instanceId,
    deployId: tally.deployId,
    nodeEpoch,
    source: "engine",
    endReason: "stop",
    readyMs: tally.readyMs,
  };
}
