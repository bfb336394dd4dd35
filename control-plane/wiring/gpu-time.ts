// GPU time put together: what is held in advance, and what agents metered.
import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import { createGpuHolds } from "../billing/gpu-holds.ts";
import { type GpuMinute, readGpuMinute } from "../billing/gpu-minute.ts";
import { createGpuTime } from "../billing/gpu-time.ts";
import type { BillingMetrics } from "../billing/metrics.ts";
import type { Settlement } from "../billing/settle.ts";
import type { SettlementStore } from "../billing/store.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createGpuTimeStore } from "../store/gpu-time-store.ts";

export function createGpuBilling(deps: {
  readonly db: OpenDatabase["db"];
  /** Settles requests. */
  readonly settlement: Settlement;
  readonly settlementStore: SettlementStore;
  readonly metrics: BillingMetrics;
  readonly log: Logger;
}) {
  const { log, metrics } = deps;
  const store = createGpuTimeStore(deps.db);
  const time = createGpuTime({ store, settlement: deps.settlementStore, metrics, log });
  return {
    holds: createGpuHolds({ store, log }),
    /** Requests and minutes of GPU time come in one stream; each kind waits for its own. */
    async settle(records: readonly SpooledRecord[], nodeEpoch: string, host: HostId): Promise<string[]> {
      const minutes: GpuMinute[] = [];
      const ofMinutes: string[] = [];
      const requests = records.filter((wire) => {
        const minute = readGpuMinute(wire);
        if (!minute) return true;
        minutes.push(minute);
        ofMinutes.push(String(wire.spoolId));
        return false;
      });
      const [durable, areMinutesDurable] = await Promise.all([
        deps.settlement.settle(requests, nodeEpoch),
        time.settle(minutes, host),
      ]);
      return areMinutesDurable ? [...durable, ...ofMinutes] : durable;
    },
  };
}
