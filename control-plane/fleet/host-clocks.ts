// Time since each host's last sign of life, as observed by this process: the clocks restart with it, so an outage of the control
// plane itself changes nothing. Monotonic time; renewals (here or at another replica), registrations and responses on the
// data path count as signs of life.
import type { HostId } from "../../proto/ids.ts";
import type { HostState } from "./host.ts";

export interface HostClockLimits {
  /** Silence after which a host gets no new routes. */
  readonly leaseMs: number;
  /** Silence after which its instances are replaced elsewhere. */
  readonly lostMs: number;
}

export const hostClockLimits: HostClockLimits = { leaseMs: 20_000, lostMs: 60_000 };

export interface HostClocks {
  heard(host: HostId): void;
  /**
   * Applies times stored by the replicas: a changed time counts as a sign of life. Removes hosts that are missing. Returns
   * the hosts with a change.
   */
  sawSeenAt(seenAt: ReadonlyMap<HostId, number>): readonly HostId[];
  /** Revoked hosts are lost, whenever they were last seen. */
  setRevoked(hosts: ReadonlySet<HostId>): void;
  silentMs(host: HostId): number;
  /** `lost` only when the silence is this host's own: see isMassSilence. */
  state(host: HostId): HostState;
  /** For a silent host that is not lost; undefined also while a mass silence holds it back. */
  untilLostMs(host: HostId): number | undefined;
  /** Hosts that would be lost without a mass silence: worth an alert. */
  heldBack(): readonly HostId[];
}

export function createHostClocks(deps: {
  readonly limits: HostClockLimits;
  readonly monotonicMs: () => number;
}): HostClocks {
  const startedMs = deps.monotonicMs();
  const heardMs = new Map<HostId, number>();
  const seen = new Map<HostId, number>();
  let revoked: ReadonlySet<HostId> = new Set();

  const lastHeard = (host: HostId) => heardMs.get(host) ?? startedMs;
  const silentMs = (host: HostId) => deps.monotonicMs() - lastHeard(host);
  const isTogether = (host: HostId) =>
    isMassSilence(lastHeard(host), [...heardMs.values()], deps.monotonicMs(), deps.limits);

  function state(host: HostId): HostState {
    if (revoked.has(host)) return "lost";
    const silent = silentMs(host);
    if (silent <= deps.limits.leaseMs) return "live";
    return silent <= deps.limits.lostMs || isTogether(host) ? "unreachable" : "lost";
  }

  return {
    heard(host) {
      heardMs.set(host, deps.monotonicMs());
    },
    sawSeenAt(seenAt) {
      const moved: HostId[] = [];
      for (const [host, at] of seenAt) {
        const before = seen.get(host);
        seen.set(host, at);
        if (before === undefined) heardMs.set(host, Math.max(lastHeard(host), startedMs));
        else if (at > before) {
          heardMs.set(host, deps.monotonicMs());
          moved.push(host);
        }
      }
      for (const host of seen.keys()) {
        if (seenAt.has(host)) continue;
        seen.delete(host);
        heardMs.delete(host);
      }
      return moved;
    },
    setRevoked(hosts) {
      revoked = hosts;
    },
    silentMs,
    state,
    untilLostMs(host) {
      const leftMs = deps.limits.lostMs - silentMs(host);
      return leftMs > 0 && state(host) === "unreachable" ? leftMs : undefined;
    },
    heldBack: () => [...heardMs.keys()].filter((host) => silentMs(host) > deps.limits.lostMs && isTogether(host)),
  };
}

/**
 * True when more than half of three or more hosts fell silent within one lost-interval: our own network is the likelier
 * cause. Hosts that were silent long before do not count.
 */
export function isMassSilence(
  heardMs: number,
  allHeardMs: readonly number[],
  nowMs: number,
  limits: HostClockLimits,
): boolean {
  const alive = allHeardMs.filter((other) => other >= heardMs - limits.lostMs);
  const silentToo = alive.filter((other) => other <= heardMs + limits.lostMs && nowMs - other > limits.leaseMs);
  return alive.length >= 3 && silentToo.length * 2 > alive.length;
}
