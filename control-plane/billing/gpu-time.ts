// Bills metered minutes of GPU time. The agent measures the duration; the control plane determines account and price. A minute
// that was not held in advance is not charged. Idempotent: a minute of an instance is one row.
import type { Logger } from "pino";
import { bigintJson } from "../../proto/exact-json.ts";
import { minuteMs } from "../../proto/gpu-minute.ts";
import type { HostId, KeyId, ReplicaId } from "../../proto/ids.ts";
import { freeOfCharge, nano } from "../../proto/money.ts";
import { gpuCost } from "../../proto/price-rules.ts";
import { noUsage } from "../../proto/usage-record.ts";
import { type Clock, systemClock } from "./clock.ts";
import type { GpuMinute } from "./gpu-minute.ts";
import { rateAt } from "./gpu-price.ts";
import type { GpuTimeStore, KnownMinute } from "./gpu-store.ts";
import type { BillingMetrics } from "./metrics.ts";
import type { Quarantine } from "./quarantine.ts";
import type { QuarantineProblem } from "./record.ts";
import { recordKey, type SettledRecord } from "./record.ts";
import type { SettlementStore } from "./store.ts";

/** Maximum difference between the clocks of replicas, the database and the control-plane time of an agent. */
const maxClockDifferenceMs = minuteMs;

interface Doubt {
  readonly problem: QuarantineProblem;
  readonly why: string;
}

const unknownInstance: Doubt = {
  problem: "unknown_instance",
  why: "no such instance of that deployment ran on the host that sent it",
};
const expired: Doubt = { problem: "expired", why: "usage records of that time have expired" };
const outsideLife: Doubt = {
  problem: "outside_life",
  why: "the minute lies in the future, before or after the life of the instance, or is already settled in full",
};

export interface GpuTime {
  /**
   * Returns true when each of them is in the ledger, now or before, or in quarantine: `host`, which sent it, never ran the
   * instance, or not at that time. Otherwise all are to be sent again. Never throws.
   */
  settle(minutes: readonly GpuMinute[], host: HostId): Promise<boolean>;
}

export function createGpuTime(deps: {
  readonly store: GpuTimeStore;
  readonly settlement: Pick<SettlementStore, "settle">;
  readonly quarantine: Quarantine;
  readonly metrics: BillingMetrics;
  readonly log: Logger;
  readonly clock?: Clock;
}): GpuTime {
  const { store, log, metrics } = deps;
  const clock = deps.clock ?? systemClock;
  let isUnavailable = false;

  async function quarantine(minutes: readonly GpuMinute[], host: HostId, doubt: Doubt): Promise<void> {
    if (minutes.length === 0) return;
    const items = minutes.map((minute) => ({
      requestId: minute.id,
      attempt: 1,
      ...doubt,
      record: bigintJson(minute),
    }));
    const kept = await deps.quarantine.put(host, String(minutes[0]?.nodeEpoch), items);
    if (kept.includes(false)) throw new Error("could not quarantine GPU time");
  }

  async function write(minutes: readonly GpuMinute[], host: HostId): Promise<void> {
    const nowMs = clock.unixMs();
    const known = await store.lookUp(minutes, host);
    const records = new Map<
      string,
      { readonly minute: GpuMinute; readonly record: SettledRecord; readonly gpu: string; readonly isCovered: boolean }
    >();
    const strange: GpuMinute[] = [];
    const tooOld: GpuMinute[] = [];
    const impossible: GpuMinute[] = [];
    const spent = new Map<string, number>();
    for (const [index, claimed] of minutes.entries()) {
      const of = known[index];
      const { instance, startMs, isAsleep } = claimed;
      const keyOf = (ofSleep: boolean) => `${instance}/${startMs}/${ofSleep}`;
      // A minute has 60 seconds, awake and asleep together.
      const otherMs = Math.max(of?.otherMs ?? 0, spent.get(keyOf(!isAsleep)) ?? 0);
      const readyMs = Math.min(claimed.readyMs, minuteMs - otherMs);
      const minute = { ...claimed, readyMs };
      if (!of) strange.push(claimed);
      else if (of.isExpired) tooOld.push(claimed);
      else if (!isWithinLife(minute, of, nowMs) || readyMs < 1) impossible.push(claimed);
      else {
        spent.set(keyOf(isAsleep), Math.max(spent.get(keyOf(isAsleep)) ?? 0, readyMs));
        records.set(minute.id, { minute, record: asRecord(minute, of), gpu: of.gpu, isCovered: of.isCovered });
      }
    }
    await quarantine(strange, host, unknownInstance);
    await quarantine(tooOld, host, expired);
    await quarantine(impossible, host, outsideLife);
    if (records.size === 0) return;
    const all = [...records.values()];
    const facts = { records: all.map((one) => one.record), counts: [] };
    const { fresh, losses } = await deps.settlement.settle(facts);
    // A minute without a hold must not end the hold of others.
    const held = all.flatMap(({ minute, isCovered }) => (isCovered ? minute : []));
    if (held.length > 0) await store.noteSettled(held, nowMs);
    for (const { minute, record, gpu, isCovered } of all)
      if (isCovered && !minute.isAsleep && fresh.has(recordKey(record)))
        metrics.gpuSecondsBilled.inc({ gpu }, record.gpuMs / 1000);
    metrics.lost(losses);
  }

  return {
    async settle(minutes, host) {
      if (minutes.length === 0) return true;
      try {
        await write(minutes, host);
        if (isUnavailable) log.info("GPU time is settled again");
        isUnavailable = false;
        return true;
      } catch (error) {
        if (!isUnavailable)
          log.error({ err: error, minutes: minutes.length }, "could not settle GPU time; agents will send it again");
        isUnavailable = true;
        return false;
      }
    },
  };
}

/**
 * Returns true if the instance can have been ready in that minute. Its first and last minute are partial. An agent sends the
 * minutes of an outage days late.
 */
function isWithinLife({ startMs }: GpuMinute, of: KnownMinute, nowMs: number): boolean {
  const latestMs = Math.min(nowMs, of.endedMs ?? nowMs) + maxClockDifferenceMs;
  return startMs <= latestMs && startMs + minuteMs > of.createdMs - maxClockDifferenceMs;
}

function asRecord(minute: GpuMinute, of: KnownMinute): SettledRecord {
  const gpuMs = Math.round(minute.readyMs * of.gpus);
  const rate = rateAt(of.tariff, minute.startMs);
  const cost = gpuCost(gpuMs, rate?.hourRate ?? 0n);
  return {
    ...noUsage,
    requestId: minute.id,
    attempt: 1,
    admittedAtMs: minute.startMs,
    endedAtMs: minute.endedAtMs,
    account: of.account,
    // No key: the deployment runs without requests too.
    key: "" as KeyId,
    replica: "" as ReplicaId,
    model: of.model,
    deployId: minute.deployId,
    instanceId: minute.instance,
    nodeEpoch: minute.nodeEpoch,
    leaseIds: of.leaseId === undefined ? [] : [of.leaseId],
    hold: of.isCovered ? cost : nano(0n),
    gpuMs,
    source: "engine",
    endReason: "stop",
    priceVersion: rate?.version ?? 0n,
    rates: freeOfCharge,
    discountId: rate?.discountId ?? null,
    cost,
    totalMs: minute.readyMs,
  };
}
