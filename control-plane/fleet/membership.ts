// Registers hosts and receives their heartbeats and reports. Heartbeats of all hosts are written in one statement every few
// seconds; the clocks in memory advance immediately.
import { randomBytes } from "node:crypto";
import type { Logger } from "pino";
import type { HostId } from "../../proto/ids.ts";
import { repeat } from "../../proto/repeat.ts";
import { RunSuperseded } from "./errors.ts";
import type { Inventory } from "./host.ts";
import type { HostClocks } from "./host-clocks.ts";
import type { HostLive, LiveFigures } from "./live.ts";
import type { RoutingTable } from "./routing-table.ts";
import type { FleetStore, HostSession, Registration } from "./store.ts";

export interface Hello extends Omit<Registration, "ticketKey"> {
  /** Last restore mark that the agent received; empty if none. */
  readonly restoreMark: string;
}

export interface Welcome extends HostSession {
  readonly ticketKey: Buffer;
  /** The agent has applied a newer state than this database holds, so the database was restored from a backup. */
  readonly isBehind: boolean;
}

interface InventoryReport {
  /** Undefined when unchanged. */
  readonly inventory: Inventory | undefined;
  readonly openLeaseIds: readonly string[];
  readonly live: HostLive;
}

export interface Membership {
  /**
   * Issues a new epoch and ticket key. If this database is behind the agent, sets a condition on the host, which excludes it
   * from placement. Throws RunSuperseded if another agent with the same identity registered later.
   */
  register(hello: Hello): Promise<Welcome>;
  heard(session: HostSession): void;
  report(session: HostSession, report: InventoryReport): Promise<void>;
  /** Window in which the hosts of this fleet should reconnect first, for its current size. */
  readonly reconnectSpreadMs: number;
  /**
   * No heartbeat could be written or read for a quarter of a lease: other replicas soon consider this replica's hosts
   * silent.
   */
  readonly isDatabaseUnavailable: boolean;
  /** Writes and reads heartbeats until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

interface Heard {
  readonly session: HostSession;
  readonly reported?: { readonly leaseIds: readonly string[]; readonly live: HostLive; readonly atMs: number };
}

export function createMembership(deps: {
  readonly store: FleetStore;
  readonly clocks: HostClocks;
  readonly routing: Pick<RoutingTable, "sawReport">;
  readonly figures: Pick<LiveFigures, "saw">;
  readonly monotonicMs: () => number;
  readonly log: Logger;
  /** Time for which a silent session counts as alive. */
  readonly leaseMs: number;
  /** Default: 3 s of a lease of 20 s, so that a quarter of the lease has passed only after heartbeats failed. */
  readonly everyMs?: number;
}): Membership {
  const { store, clocks, log } = deps;
  const pending = new Map<HostId, Heard>();
  const states = new Map<HostId, string>();
  let beatenMs = deps.monotonicMs();

  const asBeat = ({ session, reported }: Heard) => ({
    ...session,
    ...(reported
      ? { leases: { ids: reported.leaseIds, ageMs: deps.monotonicMs() - reported.atMs, live: reported.live } }
      : {}),
  });

  async function beat(): Promise<void> {
    const taken = [...pending.values()];
    pending.clear();
    try {
      if (taken.length > 0) await store.heard(taken.map(asBeat));
      const seenAt = await store.seenAt();
      beatenMs = deps.monotonicMs();
      // Reports arrive at the session's replica; other replicas detect here that a silent host is back.
      for (const host of clocks.sawSeenAt(seenAt)) deps.routing.sawReport(host);
      for (const host of seenAt.keys()) if (!states.has(host)) states.set(host, clocks.state(host));
      for (const host of states.keys()) if (!seenAt.has(host)) states.delete(host);
    } catch (error) {
      for (const beat of taken) if (!pending.has(beat.session.hostId)) pending.set(beat.session.hostId, beat);
      log.warn({ err: error }, "could not write heartbeats; will retry");
    }
    logChanges();
  }

  function logChanges(): void {
    for (const [host, before] of states) {
      const now = clocks.state(host);
      if (now === before) continue;
      states.set(host, now);
      if (now === "live") log.info({ host }, "host is responding again");
      else
        log.error(
          { alert: `host_${now}`, host, silentMs: Math.round(clocks.silentMs(host)) },
          "host is not responding",
        );
    }
    const held = clocks.heldBack();
    if (held.length > 0)
      log.error(
        { alert: "mass_silence", hosts: held.length },
        "most hosts stopped responding together; rescheduling nothing",
      );
  }

  return {
    async register(hello) {
      const ticketKey = randomBytes(32);
      const registered = await store.register({ ...hello, ticketKey }, deps.leaseMs);
      const alert = { host: hello.hostId, hostname: hello.hostname, advertise: hello.advertise };
      if (registered.kind === "superseded" || registered.isClone)
        log.error({ alert: "cloned_identity", ...alert }, "two agents use the identity of one host");
      if (registered.kind === "superseded") throw new RunSuperseded(hello.hostId);
      const { nodeEpoch, isBehind } = registered;
      const session = { hostId: hello.hostId, nodeEpoch };
      clocks.heard(hello.hostId);
      states.set(hello.hostId, "live");
      if (isBehind)
        log.error(
          { alert: "control_plane_behind", ...alert, nodeEpoch: `${nodeEpoch}`, obeyed: `${hello.highestEpoch}` },
          "the agent has applied a newer state than this control plane has",
        );
      return { ...session, ticketKey, isBehind };
    },
    get reconnectSpreadMs() {
      return reconnectSpreadMs(states.size);
    },
    get isDatabaseUnavailable() {
      return deps.monotonicMs() - beatenMs > deps.leaseMs / 4;
    },
    heard(session) {
      clocks.heard(session.hostId);
      const before = pending.get(session.hostId);
      pending.set(session.hostId, before?.session.nodeEpoch === session.nodeEpoch ? before : { session });
    },
    async report(session, report) {
      clocks.heard(session.hostId);
      const reported = { leaseIds: report.openLeaseIds, live: report.live, atMs: deps.monotonicMs() };
      pending.set(session.hostId, { session, reported });
      deps.figures.saw(session.hostId, report.live);
      deps.routing.sawReport(session.hostId);
      if (report.inventory) await store.setInventory(session, report.inventory);
    },
    async run(signal) {
      await repeat(deps.everyMs ?? deps.leaseMs * 0.15, signal, beat);
      await beat();
    },
  };
}

/** About thirteen hosts per second, at most a seventh of them in any second. Always shorter than a lease; small fleets need none. */
const perHostMs = 75;
const minMs = 1_000;
const maxMs = 15_000;

export function reconnectSpreadMs(hosts: number): number {
  return Math.min(maxMs, Math.max(minMs, hosts * perHostMs));
}
