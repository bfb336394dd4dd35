// How many calls a receiver's host gets at once, and hardly any of an account for a while where it answered none of its last:
// an account's silent receiver must not silence the others of a host that many share. One process's own: what a host does to
// one control plane it does to all. INVARIANT: each begun call is ended once.
import type { SilentHost } from "./store.ts";

/** Calls of one host at a time. */
export const mostOfHost = 8;
const failuresToOpen = 5;
const firstPauseMs = 5_000;
const mostPauseMs = 60_000;
const mostCircuits = 10_000;

/** Of one account's calls of one host. */
interface Circuit {
  readonly account: string;
  readonly host: string;
  running: number;
  failures: number;
  pauseMs: number;
  /** Monotonic ms until which nothing is begun. */
  closedUntilMs: number;
}

export class HostCalls {
  readonly #running = new Map<string, number>();
  readonly #circuits = new Map<string, Circuit>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Only of hosts that have less than `mostOfHost`. */
  room(): Map<string, number> {
    return new Map([...this.#running].map(([host, running]) => [host, Math.max(0, mostOfHost - running)]));
  }

  /** Where an account's calls of a host have less than the host. */
  silent(): readonly SilentHost[] {
    const nowMs = this.#nowMs();
    return [...this.#circuits.values()]
      .filter(({ failures }) => failures >= failuresToOpen)
      .map(({ account, host, running, closedUntilMs }) => {
        // One call finds out whether a host that was silent answers again.
        const most = nowMs < closedUntilMs ? 0 : 1;
        return { account, host, room: Math.max(0, most - running) };
      });
  }

  began(account: string, host: string): void {
    this.#running.set(host, (this.#running.get(host) ?? 0) + 1);
    const key = keyOf(account, host);
    const fresh = { account, host, running: 0, failures: 0, pauseMs: firstPauseMs, closedUntilMs: 0 };
    const circuit = this.#circuits.get(key) ?? fresh;
    circuit.running += 1;
    this.#circuits.set(key, circuit);
  }

  /** `isAlive`: it answered, whatever it said; undefined: nothing was learned of it. */
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
    circuit.pauseMs = Math.min(mostPauseMs, circuit.pauseMs * 2);
  }

  #forgetOld(): void {
    if (this.#circuits.size <= mostCircuits) return;
    for (const [key, { running }] of this.#circuits) {
      if (running === 0) this.#circuits.delete(key);
      if (this.#circuits.size <= mostCircuits) return;
    }
  }
}

/** A host holds no space. */
const keyOf = (account: string, host: string): string => `${host} ${account}`;
