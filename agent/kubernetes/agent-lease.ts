// One agent of a name changes Pods: a lease of coordination.k8s.io. INVARIANT: no change of its holder is under way once the lease could
// have passed to another one; so each is made through `change`. Times of other machines are not compared: a lease is over when it has
// not changed here for its duration.
import { V1MicroTime } from "@kubernetes/client-node";
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import { DriverError } from "../reconcile/driver.ts";
import { statusOf } from "./api-fault.ts";
import type { CallOptions, Cluster } from "./cluster.ts";

interface LeaseOptions {
  readonly cluster: Pick<Cluster, "coordination" | "namespace" | "call">;
  readonly name: string;
  /** Differs between agents that run at the same time. */
  readonly holder: string;
  readonly log: Logger;
  readonly clock?: () => number;
}

export const leaseSeconds = 30;
const renewMs = 8_000;
/** From its end for its holder to its end for others. In the first half changes are given up, in the second the API server ends those it has. */
const marginMs = 10_000;
const changeLimitMs = 30_000;

export class AgentLease {
  readonly #options: LeaseOptions;
  readonly #clock: () => number;
  #heldUntilMs = Number.NEGATIVE_INFINITY;
  #renewing: Promise<boolean> | undefined;
  #seen: { readonly version: string; readonly sinceMs: number } | undefined;
  #holder = "";

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
  }

  get isHeld(): boolean {
    return this.#clock() < this.#heldUntilMs;
  }

  /** Throws DriverError while another agent has it. */
  async require(signal: AbortSignal): Promise<void> {
    if (this.isHeld || (await this.renew(signal))) return;
    throw new DriverError(
      "engine_away",
      `Another agent of this name (${this.#holder}) works in the namespace; nothing is changed until its lease ends.`,
      { retryable: true },
    );
  }

  /** A call that changes something, which takes no longer than the lease lasts. Throws as `require` and `Cluster.call` do. */
  async change<T>(signal: AbortSignal, work: (options: CallOptions) => Promise<T>): Promise<T> {
    await this.require(signal);
    const leftMs = this.#heldUntilMs + marginMs / 2 - this.#clock();
    const limitMs = Math.max(1, Math.floor(Math.min(leftMs, changeLimitMs)));
    return this.#options.cluster.call(signal, work, limitMs);
  }

  /** Takes or renews it, once for calls that come together. False while another agent has it. */
  renew(signal: AbortSignal): Promise<boolean> {
    this.#renewing ??= this.#renew(signal).finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  async #renew(signal: AbortSignal): Promise<boolean> {
    const { cluster, name, holder, log } = this.#options;
    const askedMs = this.#clock();
    try {
      return await cluster.call(signal, async (options) => {
        const { coordination, namespace } = cluster;
        const found = await coordination.readNamespacedLease({ name, namespace }, options).catch((error: unknown) => {
          if (statusOf(error) === 404) return undefined;
          throw error;
        });
        const version = found?.metadata?.resourceVersion ?? "";
        const other = found?.spec?.holderIdentity ?? "";
        if (found && other !== "" && other !== holder && !this.#isOver(version, found.spec?.leaseDurationSeconds)) {
          if (this.#holder !== other) log.warn({ holder: other }, "another agent of this name holds the lease");
          this.#holder = other;
          return false;
        }
        const body = {
          metadata: { name, ...(found ? { resourceVersion: version } : {}) },
          spec: { holderIdentity: holder, leaseDurationSeconds: leaseSeconds, renewTime: new V1MicroTime() },
        };
        if (found) await coordination.replaceNamespacedLease({ name, namespace, body }, options);
        else await coordination.createNamespacedLease({ namespace, body }, options);
        this.#heldUntilMs = askedMs + leaseSeconds * 1000 - marginMs;
        return true;
      });
    } catch (error) {
      // Another agent was faster.
      if (statusOf((error as DriverError).cause ?? error) === 409) return false;
      throw error;
    }
  }

  #isOver(version: string, seconds = leaseSeconds): boolean {
    // Agents ask for no more. Somebody who may write leases could otherwise stop this one for years by one number.
    const limitMs = Math.min(seconds, leaseSeconds) * 1000;
    const nowMs = this.#clock();
    if (this.#seen?.version !== version) this.#seen = { version, sinceMs: nowMs };
    return nowMs - this.#seen.sinceMs >= limitMs;
  }

  async keep(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.renew(signal).catch((err) => {
        if (!signal.aborted) this.#options.log.warn({ err }, "could not renew the lease of this agent; will retry");
      });
      await pause(renewMs, signal);
    }
  }

  /** For a successor, which need not wait then. */
  async release(signal: AbortSignal): Promise<void> {
    if (!this.isHeld) return;
    this.#heldUntilMs = Number.NEGATIVE_INFINITY;
    const { cluster, name, holder } = this.#options;
    await cluster.call(signal, async (options) => {
      const { coordination, namespace } = cluster;
      const found = await coordination.readNamespacedLease({ name, namespace }, options);
      if (found.spec?.holderIdentity !== holder) return;
      const body = { ...found, spec: { ...found.spec, holderIdentity: "" } };
      await coordination.replaceNamespacedLease({ name, namespace, body }, options);
    });
  }
}
