// Makes metered minutes of GPU time durable money. The agent knows how long, the control plane whose and at what price; a
// minute that was not held in advance bills nobody. Safe to repeat: a minute of an instance is one row.
import type { Logger } from "pino";
import type { HostId, KeyId, ReplicaId } from "../../proto/ids.ts";
import { freeOfCharge, nano } from "../../proto/money.ts";
import type { GpuMinute } from "./gpu-minute.ts";
import { gpuCost, rateAt } from "./gpu-price.ts";
import type { GpuTimeStore, KnownMinute } from "./gpu-store.ts";
import type { BillingMetrics } from "./metrics.ts";
import { moneyRules } from "./post.ts";
import { recordKey, type SettledRecord } from "./record.ts";
import type { SettlementStore } from "./store.ts";

export interface GpuTime {
  /**
   * True when all of them are in the ledger, now or before, or quarantined because the instance never ran on `host`, who
   * sent them; never throws. Otherwise they are to be sent again.
   */
  settle(minutes: readonly GpuMinute[], host: HostId): Promise<boolean>;
}

export function createGpuTime(deps: {
  readonly store: GpuTimeStore;
  readonly settlement: Pick<SettlementStore, "settle">;
  readonly metrics: BillingMetrics;
  readonly log: Logger;
}): GpuTime {
  const { store, log, metrics } = deps;
  let isAway = false;

  async function write(minutes: readonly GpuMinute[], host: HostId): Promise<void> {
    const known = await store.lookUp(minutes, host);
    const records = new Map<
      string,
      { readonly record: SettledRecord; readonly gpu: string; readonly isCovered: boolean }
    >();
    for (const [index, minute] of minutes.entries()) {
      const of = known[index];
      if (of) records.set(minute.id, { record: asRecord(minute, of), gpu: of.gpu, isCovered: of.isCovered });
    }
    const strange = minutes.filter((_, index) => !known[index]);
    if (strange.length > 0) {
      await store.quarantine(strange, "no such instance of that deployment ran on the host that sent it");
      log.error(
        {
          alert: "unknown_gpu_time",
          host,
          minutes: strange.length,
          instances: [...new Set(strange.map((m) => m.instance))],
        },
        "GPU time of instances that never ran on the host that sent it is quarantined: nobody pays",
      );
    }
    if (records.size === 0) return;
    const all = [...records.values()];
    const facts = { records: all.map((one) => one.record), counts: [] };
    const { fresh, postings } = await deps.settlement.settle(facts, moneyRules);
    await store.noteSettled(minutes.filter((_, index) => known[index]));
    for (const { record, gpu, isCovered } of all)
      if (isCovered && fresh.has(recordKey(record.requestId, 1)))
        metrics.gpuSecondsBilled.inc({ gpu }, record.gpuMs / 1000);
    for (const { loss, lossReason } of postings?.entries ?? []) if (lossReason) metrics.lost(loss, lossReason);
  }

  return {
    async settle(minutes, host) {
      if (minutes.length === 0) return true;
      try {
        await write(minutes, host);
        if (isAway) log.info("GPU time is settled again");
        isAway = false;
        return true;
      } catch (error) {
        if (!isAway) log.error({ err: error, minutes: minutes.length }, "GPU time was not settled; it comes again");
        isAway = true;
        return false;
      }
    },
  };
}

function asRecord(minute: GpuMinute, of: KnownMinute): SettledRecord {
  const gpuMs = Math.round(minute.readyMs * of.gpus);
  const rate = rateAt(of.tariff, minute.startMs);
  const cost = gpuCost(gpuMs, rate?.hourRate ?? 0n);
  return {
    requestId: minute.id,
    attempt: 1,
    admittedAtMs: minute.startMs,
    endedAtMs: minute.endedAtMs,
    account: of.account,
    // Nobody's key: the deployment runs whether it is asked or not.
    key: "" as KeyId,
    replica: "" as ReplicaId,
    model: of.model,
    deployId: minute.deployId,
    instanceId: minute.instance,
    nodeEpoch: minute.nodeEpoch,
    leaseIds: of.leaseId === undefined ? [] : [of.leaseId],
    hold: of.isCovered ? cost : nano(0n),
    inputTokens: 0,
    cachedInputTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    gpuMs,
    source: "engine",
    endReason: "stop",
    priceVersion: rate?.version ?? 0n,
    rates: freeOfCharge,
    discountId: rate?.discountId ?? null,
    cost,
    queueMs: 0,
    firstByteMs: 0,
    totalMs: minute.readyMs,
  };
}
