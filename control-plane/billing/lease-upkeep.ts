// Renews the leases of this replica, returns what no request needs, and returns expired leases of replicas that ended.
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import type { Clock } from "./clock.ts";
import type { BillingMetrics } from "./metrics.ts";
import type { Part, Slice, Slices, SliceTiming } from "./slices.ts";
import type { LeaseStore, Replica, ReturnReason } from "./store.ts";

export interface LeaseUpkeepDeps {
  readonly store: LeaseStore;
  readonly replica: Replica;
  readonly slices: Slices;
  readonly clock: Clock;
  readonly timing: SliceTiming;
  readonly log: Logger;
  readonly metrics: BillingMetrics;
  /** Lease ids of requests and records that agents still have; undefined until every known host has reported. */
  readonly openLeaseIds: () => Promise<ReadonlySet<string> | undefined>;
  /** Leases of hosts that did not report for a day, each with its host: returned nevertheless, with an audit row. */
  readonly voidedLeases?: (() => Promise<ReadonlyMap<string, string>>) | undefined;
  /** Money of the slice above the near needs of its account. */
  readonly excess: (slice: Slice, nowMs: number) => bigint;
}

export class LeaseUpkeep {
  readonly #deps: LeaseUpkeepDeps;
  #isUnavailable = false;
  #sweptAtMs: number;
  /** Monotonic ms of the first round in a row that reached the database; undefined after a failed one. */
  #reachableSinceMs: number | undefined;
  /** Returns run one after another. */
  #returning: Promise<unknown> = Promise.resolve();

  constructor(deps: LeaseUpkeepDeps) {
    this.#deps = deps;
    this.#sweptAtMs = deps.clock.monotonicMs();
    this.#reachableSinceMs = this.#sweptAtMs;
  }

  /** One round of renewals, look-ups and returns. Never rejects. */
  async round(): Promise<void> {
    const { store, replica, clock, timing, slices } = this.#deps;
    const nowMs = clock.monotonicMs();
    const canReach = await this.#attempt(() => this.#renew());
    this.#reachableSinceMs = canReach ? (this.#reachableSinceMs ?? nowMs) : undefined;
    // During an outage every record is late. Afterwards agents get the full time to send theirs again.
    if (this.#reachableSinceMs !== undefined && nowMs - this.#reachableSinceMs >= timing.overdueMs)
      slices.reportOverdue(nowMs - timing.overdueMs);
    this.#forgetOld(nowMs);
    // The amount of a return whose outcome is unknown is lost until the next renewal: keep it while PostgreSQL has an outage.
    if (canReach) await this.#attempt(() => this.#giveBack(this.#idleParts(nowMs), "idle"));
    if (nowMs - this.#sweptAtMs < timing.sweepEveryMs) return;
    this.#sweptAtMs = nowMs;
    await this.#attempt(() => store.touchReplica(replica));
    await this.#attempt(() => this.#sweepExpired());
  }

  /** Returns everything that no hold reserves; the rest stays leased until its records are durable. */
  async end(): Promise<void> {
    const { slices } = this.#deps;
    await this.#returning;
    await this.#attempt(() => this.#renew());
    slices.reportWhole();
    slices.retire(() => true);
    await this.#attempt(() =>
      this.#giveBack(
        [...slices].map((slice) => [slice, atLeastZero(slice.free)]),
        "shutdown",
      ),
    );
  }

  /** Retires these slices and returns their free part at once. */
  recall(isMeant: (slice: Slice) => boolean): void {
    this.#deps.slices.retire(isMeant);
    void this.#attempt(() => this.#giveBack(this.#freeParts(isMeant), "idle"));
  }

  /** Returns the free part of the account's retired slices, so that a grant can use it before a request is refused. */
  async reclaim(account: AccountId): Promise<void> {
    await this.#returning;
    await this.#giveBack(
      this.#freeParts((slice) => slice.isRetired && slice.account === account),
      "idle",
    );
  }

  /** Logs the first of several failures in a row. */
  readonly failed = (error: unknown): void => {
    if (!this.#isUnavailable)
      this.#deps.log.warn({ err: error }, "budgets cannot reach the database; slices last until their deadline");
    this.#isUnavailable = true;
  };

  async #attempt(step: () => Promise<unknown>): Promise<boolean> {
    try {
      await step();
      return true;
    } catch (error) {
      this.failed(error);
      return false;
    }
  }

  async #renew(): Promise<void> {
    const { store, replica, timing, slices, log } = this.#deps;
    const isRenewed = await slices.renew((leases, requests) => store.sync(replica, leases, requests, timing.ttlMs));
    if (!isRenewed) return;
    if (this.#isUnavailable) log.info("leases are renewed again");
    this.#isUnavailable = false;
  }

  #forgetOld(nowMs: number): void {
    const { slices, metrics, log } = this.#deps;
    for (const { slice, missing } of slices.forgetOld(nowMs)) {
      metrics.holdsExpired.inc(missing);
      log.warn({ lease: slice.leaseId, account: slice.account, requests: missing }, "usage records never arrived");
    }
  }

  #idleParts(nowMs: number): Part[] {
    return [...this.#deps.slices].flatMap((slice): Part[] => {
      if (slice.moves > 0) return [];
      const isIdle = slice.isIdle(nowMs);
      const amount = isIdle ? atLeastZero(slice.free) : this.#deps.excess(slice, nowMs);
      return amount > 0n || (isIdle && !slice.hasHolds) ? [[slice, amount]] : [];
    });
  }

  #freeParts(isMeant: (slice: Slice) => boolean): Part[] {
    return [...this.#deps.slices]
      .filter((slice) => slice.moves === 0 && isMeant(slice) && slice.free > 0n)
      .map((slice) => [slice, slice.free]);
  }

  #giveBack(parts: readonly Part[], why: ReturnReason): Promise<void> {
    const { store, replica, slices, metrics } = this.#deps;
    if (parts.length === 0) return Promise.resolve();
    const given = slices
      .giveBack(parts, (items) => store.giveBack(replica, items, why))
      .then((closedCount) => {
        if (closedCount > 0) metrics.leaseReturns.inc({ why }, closedCount);
      });
    this.#returning = given.catch(() => {});
    return given;
  }

  /**
   * Returns leases that no replica renews any more, once no agent reports a running request or an unacknowledged record with
   * them. A record that arrived later would find their money spent.
   */
  async #sweepExpired(): Promise<void> {
    const { store, timing, metrics, log, openLeaseIds, voidedLeases } = this.#deps;
    const expired = await store.expiredLeases(timing.sweepGraceMs);
    if (expired.length === 0) return;
    const open = await openLeaseIds();
    if (!open) return;
    const unheld = expired.filter((leaseId) => !open.has(leaseId));
    if (unheld.length === 0) return;
    const voided = (await voidedLeases?.()) ?? new Map<string, string>();
    const closed = await store.closeExpired(unheld, timing.sweepGraceMs, voided);
    metrics.released.inc({ what: "lease" }, closed.filter(({ leaseId }) => voided.has(leaseId)).length);
    for (const { leaseId, given } of closed)
      log.info({ lease: leaseId, given: String(given) }, "expired lease returned");
    metrics.leaseReturns.inc({ why: "dead" }, closed.length);
  }
}

const atLeastZero = (amount: bigint): bigint => (amount > 0n ? amount : 0n);
