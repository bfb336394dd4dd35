// Limits by address for clients without a valid credential: requests by a token bucket, and the number of connections. Kept in the
// memory of this process, for a bounded number of addresses: above it, the address that was quiet longest is forgotten.
import type { Socket } from "node:net";
import { networkOf } from "../../accounts/attempts.ts";
import { tooManyRequests } from "../errors/errors.ts";

export interface AddressLimitsConfig {
  /** Requests without a valid credential per second and address; 0: no limit. Bursts of ten seconds' worth are allowed. */
  readonly requestsPerSecond: number;
  /** Open connections per address that have not carried a valid credential. */
  readonly connections: number;
}

export const defaultAddressLimits: AddressLimitsConfig = { requestsPerSecond: 50, connections: 256 };

/** Steps of sign-in and sign-up per address: `max` at once, and `max` more in each `windowMs`. Independent of the config. */
const attempts = { max: 60, windowMs: 900_000 };
const burstMs = 10_000;
const maxAddresses = 50_000;
/** Addresses that are forgotten together, because each search for the oldest one passes all that were forgotten since the map grew. */
const forgottenTogether = 2_000;

export class AddressLimits {
  readonly #config: AddressLimitsConfig;
  readonly #isExempt: (address: string) => boolean;
  readonly #requests: Buckets;
  readonly #attempts: Buckets;
  /** Connections without a valid credential: network by remote address and port. */
  readonly #strangers = new Map<string, string>();
  readonly #counts = new Map<string, number>();
  readonly #known = new WeakSet<object>();

  /** `isExempt`: trusted proxies, which connect for all clients. Loopback is exempt as well. */
  constructor(config: AddressLimitsConfig, isExempt: (address: string) => boolean, nowMs = () => performance.now()) {
    this.#config = config;
    this.#isExempt = (address) => isLoopback(address) || isExempt(address);
    this.#requests = new Buckets(1_000 / config.requestsPerSecond, burstMs, nowMs);
    this.#attempts = new Buckets(attempts.windowMs / attempts.max, attempts.windowMs, nowMs);
  }

  /** Counts a request without a valid credential. Throws tooManyRequests. */
  take(address: string): void {
    if (this.#config.requestsPerSecond > 0) this.#count(this.#requests, address, true);
  }

  /** Throws tooManyRequests where `take` would. */
  check(address: string): void {
    if (this.#config.requestsPerSecond > 0) this.#count(this.#requests, address, false);
  }

  /** Counts an attempt to sign in or to create an account, before its body is read. Throws tooManyRequests. */
  attempt(address: string): void {
    this.#count(this.#attempts, address, true);
  }

  /** False: this address has too many connections open; close this one. */
  connected(socket: Socket): boolean {
    const { remoteAddress: address } = socket;
    if (address === undefined) return false;
    if (this.#isExempt(address)) return true;
    const network = networkOf(address);
    const count = (this.#counts.get(network) ?? 0) + 1;
    if (count > this.#config.connections) return false;
    const name = nameOf(socket);
    this.#counts.set(network, count);
    this.#strangers.set(name, network);
    socket.once("close", () => this.#release(name));
    return true;
  }

  /** Call it when this connection carried a valid credential. */
  authenticated(socket: Socket): void {
    if (this.#known.has(socket)) return;
    this.#known.add(socket);
    if (this.#strangers.size > 0) this.#release(nameOf(socket));
  }

  #release(name: string): void {
    const network = this.#strangers.get(name);
    if (network === undefined) return;
    this.#strangers.delete(name);
    const left = (this.#counts.get(network) ?? 1) - 1;
    if (left > 0) this.#counts.set(network, left);
    else this.#counts.delete(network);
  }

  #count(buckets: Buckets, address: string, takes: boolean): void {
    if (this.#isExempt(address)) return;
    const waitMs = buckets.take(networkOf(address), takes);
    if (waitMs > 0) throw tooManyRequests(waitMs / 1000);
  }
}

/** The same for TLS and for the TCP connection below it. */
const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress}|${remotePort}`;

const isLoopback = (address: string): boolean => address === "::1" || /^(::ffff:)?127\./.test(address);

/** Token buckets, each stored as the time when it will be full again. */
class Buckets {
  readonly #everyMs: number;
  readonly #burstMs: number;
  readonly #nowMs: () => number;
  readonly #fullAtMs = new Map<string, number>();

  constructor(everyMs: number, burstMs: number, nowMs: () => number) {
    this.#everyMs = everyMs;
    this.#burstMs = burstMs;
    this.#nowMs = nowMs;
  }

  /** Milliseconds to wait; 0: there was a token. */
  take(key: string, takes: boolean): number {
    const now = this.#nowMs();
    const next = Math.max(now, this.#fullAtMs.get(key) ?? 0) + this.#everyMs;
    const waitMs = next - now - this.#burstMs;
    if (waitMs > 0 || !takes) return Math.max(0, waitMs);
    this.#fullAtMs.delete(key);
    if (this.#fullAtMs.size >= maxAddresses) this.#forgetOldest();
    this.#fullAtMs.set(key, next);
    return 0;
  }

  #forgetOldest(): void {
    for (const key of this.#fullAtMs.keys()) {
      if (this.#fullAtMs.size <= maxAddresses - forgottenTogether) return;
      this.#fullAtMs.delete(key);
    }
  }
}
