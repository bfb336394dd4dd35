// Records of attempts without figures of their own. The gateway's delivered count bills them; without a count, a lost attempt
// waits for one and then costs nothing, and an attempt whose figures were rejected costs nothing at once.
import type { RequestId } from "../../proto/ids.ts";
import type { Clock } from "./clock.ts";
import { asDelivered, recordKey, type SettledRecord } from "./record.ts";
import type { SettlementStore } from "./store.ts";

/** A replica seen within this time may still write its delivered counts. */
const replicaLiveMs = 30_000;
/** Maximum lost attempts whose first arrival is remembered. */
const maxWaiting = 20_000;

export class LostRecords {
  readonly #store: Pick<SettlementStore, "deliveredOf" | "liveReplicas">;
  readonly #clock: Clock;
  readonly #waitMs: number;
  /** Monotonic ms at which a lost attempt without a count first arrived. */
  readonly #waitingSince = new Map<string, number>();

  /** `waitMs`: how long a lost attempt waits for the count of a live replica. */
  constructor(store: Pick<SettlementStore, "deliveredOf" | "liveReplicas">, clock: Clock, waitMs: number) {
    this.#store = store;
    this.#clock = clock;
    this.#waitMs = waitMs;
  }

  /** Returns the records as they are billed, and the keys of those that still wait for their count. */
  async resolve(
    records: readonly SettledRecord[],
  ): Promise<{ readonly records: readonly SettledRecord[]; readonly waiting: ReadonlySet<string> }> {
    const waiting = new Set<string>();
    const lost = records.filter((record) => record.isUnmeasured);
    if (lost.length === 0) return { records, waiting };
    const counts = await this.#store.deliveredOf(lost.map((record): RequestId => record.requestId));
    const missing = lost.filter((record) => !counts.has(recordKey(record)));
    const live = await this.#store.liveReplicas([...new Set(missing.map((record) => record.replica))], replicaLiveMs);
    const resolved = records.flatMap((record) => {
      if (!record.isUnmeasured) return [record];
      const key = recordKey(record);
      const delivered = counts.get(key);
      if (delivered) return [asDelivered(record, delivered.outputTokens)];
      if (record.endReason === "lost" && live.has(record.replica) && !this.#hasWaited(key)) {
        waiting.add(key);
        return [];
      }
      return [asDelivered(record, 0)];
    });
    return { records: resolved, waiting };
  }

  /** These records are durable. */
  settled(keys: ReadonlySet<string>): void {
    for (const key of keys) this.#waitingSince.delete(key);
  }

  #hasWaited(key: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    const sinceMs = this.#waitingSince.get(key);
    if (sinceMs !== undefined) return nowMs - sinceMs >= this.#waitMs;
    if (this.#waitingSince.size >= maxWaiting)
      this.#waitingSince.delete(this.#waitingSince.keys().next().value as string);
    this.#waitingSince.set(key, nowMs);
    return false;
  }
}
