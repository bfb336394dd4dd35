// Concurrent calls per receiver host, and a circuit breaker per account and host: an account's unresponsive receiver must
// not block other accounts on a shared host. Kept per process: a host that is slow for one control plane is slow for all.
// INVARIANT: each started call is ended once.
import type { SilentHost } from "./store.ts";

/** Maximum concurrent calls to one host. */
export const maxPerHost = 8;
const failuresToOpen = 5;
const firstPauseMs = 5_000;
const maxPauseMs = 60_000;
const maxCircuits = 10_000;

/** State of one account's calls to one host. */
interface Circuit {
  readonly account: string;
  readonly host: string;
  running: number;
  failures: number;
  pauseMs: number;
  /** Monotonic time in ms before which no call starts. */
  closedUntilMs: number;
}

export class HostCalls {
  readonly #running = new Map<string, number>();
  readonly #circuits = new Map<string, Circuit>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Lists only hosts with running calls. */
  capacity(): Map<string, number> {
    return new Map([...this.#running].map(([host, running]) => [host, Math.max(0, maxPerHost - running)]));
  }

  /** Accounts and hosts with a smaller limit than the host's. */
  silent(): readonly SilentHost[] {
    const nowMs = this.#nowMs();
    return [...this.#circuits.values()]
      .filter(({ failures }) => failures >= failuresToOpen)
      .map(({ account, host, running, closedUntilMs }) => {
        // One call probes whether the host responds again.
        const max = nowMs < closedUntilMs ? 0 : 1;
        return { account, host, capacity: Math.max(0, max - running) };
      });
  }

  started(account: string, host: string): void {
    this.#running.set(host, (this.#running.get(host) ?? 0) + 1);
    const key = keyOf(account, host);
    const fresh = { account, host, running: 0, failures: 0, pauseMs: firstPauseMs, closedUntilMs: 0 };
    const circuit = this.#circuits.get(key) ?? fresh;
    circuit.running += 1;
    this.#circuits.set(key, circuit);
  }

  /** `isAlive`: the host responded, with any status; undefined: unknown. */
  ended(account: string, host: string, isAlive: boolean | undefined): void {
    const left = (this.#running.get(host) ?? 1) - 1;
    if (left > 0) this.#running.set(host, left);
    else this.#running.delete(host);
    const circuit = this.#circuits.get(keyOf(account, host));
    if (!circuit) return;
    circuit.running -= 1;
    if (isAlive) Object.assign(circuit, { failures: 0, pauseMs: firstPauseMs });
    else if (isAlive === false) this.#failed(circuit);
    if (circuit.running === 0 && circuit.failures === 0) this.#circuits.delete(keyOf(account, host));
    else this.#forgetOld();
  }

  #failed(circuit: Circuit): void {
    circuit.failures += 1;
    if (circuit.failures < failuresToOpen || this.#nowMs() < circuit.closedUntilMs) return;
    circuit.closedUntilMs = this.#nowMs() + circuit.pauseMs;
    circuit.pauseMs = Math.min(maxPauseMs, circuit.pauseMs * 2);
  }

  #forgetOld(): void {
    if (this.#circuits.size <= maxCircuits) return;
    for (const [key, { running }] of this.#circuits) {
      if (running === 0) this.#circuits.delete(key);
      if (this.#circuits.size <= maxCircuits) return;
    }
  }
}

/** A host contains no space. */
const keyOf = (account: string, host: string): string => `${host} ${account}`;
