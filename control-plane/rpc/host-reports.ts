// Writes the reports of one agent session to the database, one at a time; weights and resends only when they changed.
import type { Logger } from "pino";
import { bigintJson } from "../../proto/exact-json.ts";
import type { HostReport__Output } from "../../proto/gen/stoker/fleet/v1/HostReport.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { Observer } from "../deployments/observe.ts";
import type { Inventory } from "../fleet/host.ts";
import type { Membership } from "../fleet/membership.ts";
import type { Reconcile } from "../fleet/reconcile.ts";
import type { FleetStore, HostSession, NodeWeightsStore } from "../fleet/store.ts";
import { readInventory, readKeptWeights, readLive, readNodeWeights, readObservation } from "./wire.ts";

interface ReportDeps {
  readonly membership: Pick<Membership, "report">;
  readonly observer: Pick<Observer, "observe">;
  readonly reconcile: Pick<Reconcile, "sawResend">;
  readonly nodeWeights: Pick<NodeWeightsStore, "observe">;
  readonly keptWeights: FleetStore["setKeptWeights"];
}

interface Reporter {
  readonly session: HostSession;
  /** As the agent's Hello declared it. */
  readonly inventory: Inventory;
  /** Aborted when the session ends. */
  readonly signal: AbortSignal;
  /** Called after each written report; `isCurrent` is false when the host has a newer epoch. */
  readonly onWritten: (isCurrent: boolean) => Promise<void>;
  readonly log: Logger;
}

/** Maximum instances of one report; the next report repeats the rest. */
const maxInstances = 1_000;
const maxRemoved = 1_000;

export class HostReports {
  /** As last reported. */
  inventory: Inventory;
  readonly #deps: ReportDeps;
  readonly #host: Reporter;
  #waiting: HostReport__Output | undefined;
  #writing: Promise<void> | undefined;
  #unwritten: Inventory | undefined;
  #writtenWeights = "[]";
  /** Undefined before the first report: a host may return with fewer weights. */
  #writtenKept: string | undefined;
  #writtenResend = "";

  constructor(deps: ReportDeps, host: Reporter) {
    this.#deps = deps;
    this.#host = host;
    this.inventory = host.inventory;
  }

  /**
   * Not awaited: a slow database must not delay renewals. One report is written at a time; of the reports in the meantime
   * only the newest is needed, except for the inventory, which is sent once.
   */
  take(report: HostReport__Output): void {
    this.#waiting = { ...report, inventory: report.inventory ?? this.#waiting?.inventory ?? null };
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
    });
  }

  /** Resolves when no report is being written. */
  get written(): Promise<void> {
    return this.#writing ?? Promise.resolve();
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting && !this.#host.signal.aborted) {
      const next = this.#waiting;
      this.#waiting = undefined;
      await this.#write(next).catch((error) =>
        this.#host.log.warn({ err: error }, "could not write a host report; the next one repeats it"),
      );
    }
  }

  async #write(report: HostReport__Output): Promise<void> {
    const { session } = this.#host;
    if (report.nodeEpoch !== session.nodeEpoch.toString()) return;
    const news = report.inventory ? readInventory(report.inventory) : this.#unwritten;
    if (news) this.inventory = news;
    // An agent sends its inventory once: if a write fails, repeat it with the next report.
    this.#unwritten = news;
    await this.#deps.membership.report(session, {
      inventory: news,
      openLeaseIds: report.openLeaseIds,
      live: readLive(report),
    });
    this.#unwritten = undefined;
    await this.#writeResend(report);
    await this.#writeWeights(report);
    const isCurrent = await this.#deps.observer.observe({
      ...session,
      instances: report.instances.slice(0, maxInstances).flatMap((wire) => readObservation(wire) ?? []),
      removed: report.removed.slice(0, maxRemoved) as InstanceId[],
    });
    await this.#host.onWritten(isCurrent);
  }

  async #writeResend({ resend }: HostReport__Output): Promise<void> {
    if (!resend) return;
    const text = `${resend.resendId} ${resend.done}`;
    if (text === this.#writtenResend) return;
    await this.#deps.reconcile.sawResend(this.#host.session.hostId, {
      reconcileId: resend.resendId,
      records: BigInt(resend.records),
      dropped: BigInt(resend.dropped),
      droppedThroughMs: Number(resend.droppedThroughMs),
      isDone: resend.done,
    });
    this.#writtenResend = text;
  }

  async #writeWeights(report: HostReport__Output): Promise<void> {
    const { session } = this.#host;
    const weights = readNodeWeights(report.weights);
    const text = bigintJson(weights);
    if (text !== this.#writtenWeights) await this.#deps.nodeWeights.observe(session, weights);
    this.#writtenWeights = text;
    const kept = readKeptWeights(report.weights);
    const keptText = kept.join("\n");
    if (keptText !== this.#writtenKept) await this.#deps.keptWeights(session, kept);
    this.#writtenKept = keptText;
  }
}
