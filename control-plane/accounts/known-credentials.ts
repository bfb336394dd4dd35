// Recently verified credentials and recently refused secrets: bounded, least recently used removed first. Secrets are not
// kept: both are keyed by SHA-256.
import type { KeyId } from "../../proto/ids.ts";
import type { AddressTest } from "./allowed-ips.ts";
import type { Caller } from "./caller.ts";

export interface Credential {
  readonly caller: Caller;
  /** Undefined: any address. */
  readonly mayComeFrom: AddressTest;
  /** True when used since its last-used time was written. */
  wasUsed: boolean;
}

interface Entry {
  readonly credential: Credential;
  readonly untilMs: number;
  /** When it was last moved to the end of the order. */
  movedMs: number;
}

const knownForMs = 300_000;
const unknownForMs = 10_000;
const maxEntries = 10_000;
/** A move per request would copy the map every few requests: see proto/slot-list.ts for what that costs. */
const moveEveryMs = 1_000;

export class KnownCredentials {
  readonly #known = new Map<string, Entry>();
  readonly #refused = new Map<string, number>();
  /** Used by credentials that were evicted since. */
  #usedKeys = new Set<KeyId>();
  readonly #nowMs: () => number;
  readonly #unixMs: () => number;

  /** `nowMs` is monotonic; a scoped token expires by `unixMs`. */
  constructor(nowMs: () => number, unixMs: () => number) {
    this.#nowMs = nowMs;
    this.#unixMs = unixMs;
  }

  get(digest: string): Credential | undefined {
    const entry = this.#known.get(digest);
    if (!entry || entry.untilMs <= this.#nowMs()) return undefined;
    const { credential } = entry;
    const { expiresAtMs } = credential.caller;
    if (expiresAtMs !== null && expiresAtMs <= this.#unixMs()) return undefined;
    this.#moveToEnd(digest, entry);
    return credential;
  }

  wasRefused(digest: string): boolean {
    const untilMs = this.#refused.get(digest);
    return untilMs !== undefined && untilMs > this.#nowMs();
  }

  /** `credential` undefined: the secret was refused. */
  store(digest: string, credential: Credential | undefined): void {
    if (!credential) {
      this.#refused.set(digest, this.#nowMs() + unknownForMs);
      if (this.#refused.size > maxEntries) this.#refused.delete(this.#refused.keys().next().value as string);
      return;
    }
    const nowMs = this.#nowMs();
    this.#known.delete(digest);
    this.#known.set(digest, { credential, untilMs: nowMs + knownForMs, movedMs: nowMs });
    if (this.#known.size > maxEntries) this.#drop(...(this.#known.entries().next().value as [string, Entry]));
  }

  forget(isConcerned: (caller: Caller) => boolean): void {
    // A secret that was refused before may belong to a new key.
    this.#refused.clear();
    for (const [digest, entry] of this.#known) if (isConcerned(entry.credential.caller)) this.#drop(digest, entry);
  }

  /** Keys used since the last call. */
  takeUsedKeys(): ReadonlySet<KeyId> {
    const used = this.#usedKeys;
    this.#usedKeys = new Set();
    for (const { credential } of this.#known.values()) {
      if (credential.wasUsed) used.add(credential.caller.key);
      credential.wasUsed = false;
    }
    return used;
  }

  /** Keeps the map ordered by last use, to the second: the first entry is then the one unused for longest. */
  #moveToEnd(digest: string, entry: Entry): void {
    const nowMs = this.#nowMs();
    if (nowMs - entry.movedMs < moveEveryMs) return;
    entry.movedMs = nowMs;
    this.#known.delete(digest);
    this.#known.set(digest, entry);
  }

  #drop(digest: string, { credential }: Entry): void {
    if (credential.wasUsed) this.#usedKeys.add(credential.caller.key);
    this.#known.delete(digest);
  }
}
