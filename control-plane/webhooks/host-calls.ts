// How many calls a receiver's host gets at once, and none for a while where it answered none of the last. One process's own:
// what a host does to one control plane it does to all. INVARIANT: each begun call is ended once.

/** Calls of one host at a time. */
export const mostOfHost = 8;
const failuresToOpen = 5;
const firstPauseMs = 5_000;
const mostPauseMs = 60_000;
const mostHosts = 10_000;

interface Host {
  running: number;
  failures: number;
  pauseMs: number;
  /** Monotonic ms until which nothing is begun. */
  closedUntilMs: number;
}

export class HostCalls {
  readonly #hosts = new Map<string, Host>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Only of hosts that have less than `mostOfHost`. */
  room(): Map<string, number> {
    const nowMs = this.#nowMs();
    const found = new Map<string, number>();
    for (const [name, host] of this.#hosts) {
      // One call finds out whether a host that was silent answers again.
      const most = host.failures < failuresToOpen ? mostOfHost : nowMs < host.closedUntilMs ? 0 : 1;
      if (host.running > 0 || most < mostOfHost) found.set(name, Math.max(0, most - host.running));
    }
    return found;
  }

  began(name: string): void {
    const host = this.#hosts.get(name) ?? { running: 0, failures: 0, pauseMs: firstPauseMs, closedUntilMs: 0 };
    host.running += 1;
    this.#hosts.set(name, host);
  }

  /** `isAlive`: it answered, whatever it said. */
  ended(name: string, isAlive: boolean): void {
    const host = this.#hosts.get(name);
    if (!host) return;
    host.running -= 1;
    if (isAlive) {
      if (host.running === 0) this.#hosts.delete(name);
      else Object.assign(host, { failures: 0, pauseMs: firstPauseMs });
      return;
    }
    host.failures += 1;
    if (host.failures >= failuresToOpen && this.#nowMs() >= host.closedUntilMs) {
      host.closedUntilMs = this.#nowMs() + host.pauseMs;
      host.pauseMs = Math.min(mostPauseMs, host.pauseMs * 2);
    }
    this.#forgetOld();
  }

  #forgetOld(): void {
    if (this.#hosts.size <= mostHosts) return;
    for (const [name, { running }] of this.#hosts) {
      if (running === 0) this.#hosts.delete(name);
      if (this.#hosts.size <= mostHosts) return;
    }
  }
}
