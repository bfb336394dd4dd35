// From a presented secret to a Caller. A secret seen in the last minutes is answered from memory, synchronously; revocations
// arrive over the change feed and clear it. Secrets are not kept: the memory is keyed by their SHA-256.
import { hash, timingSafeEqual } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { Counter, type Registry } from "prom-client";
import type { KeyId } from "../../proto/ids.ts";
import { looksLikeApiKey } from "./api-key.ts";
import { type Authenticator, type Caller, noLimits } from "./caller.ts";
import { type AccountSecrets, lookupOf } from "./envelope.ts";
import { AccountStoreAway, InvalidApiKey } from "./errors.ts";
import type { AccountStore, KeyRow } from "./store.ts";

export interface AuthenticatorDeps {
  readonly store: AccountStore;
  readonly secrets: AccountSecrets;
  readonly log: Logger;
  readonly registry: Registry;
  /** Topics `key` (subject: key id) and `account` (subject: account id). */
  readonly changes: { on(topic: "key" | "account", handler: (subject: string) => void): void };
  /** Monotonic. */
  readonly nowMs?: () => number;
}

export interface RunningAuthenticator extends Authenticator {
  start(): void;
  /** Writes when keys were last used, once more. */
  stop(): Promise<void>;
}

const knownForMs = 300_000;
const unknownForMs = 10_000;
const mostKnown = 10_000;
const mostUnknown = 10_000;
const lastUsedEveryMs = 30_000;

interface Known {
  readonly caller: Caller;
  readonly untilMs: number;
  wasUsed: boolean;
}

export function createAuthenticator(deps: AuthenticatorDeps): RunningAuthenticator {
  const nowMs = deps.nowMs ?? (() => performance.now());
  /** Least recently used first. */
  const known = new Map<string, Known>();
  const unknown = new Map<string, number>();
  const asking = new Map<string, Promise<Caller>>();
  const usedKeys = new Set<KeyId>();
  /** Rises with every change: an answer that was under way meanwhile may be out of date. */
  let changes = 0;
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  const failures = new Counter({
    name: "stoker_auth_failures_total",
    help: "Refused credentials",
    labelNames: ["reason"] as const,
    registers: [deps.registry],
  });

  deps.changes.on("key", (subject) => forget((caller) => caller.key === subject));
  deps.changes.on("account", (subject) => forget((caller) => caller.account === subject));

  function forget(isConcerned: (caller: Caller) => boolean): void {
    changes += 1;
    // A key that was unknown a moment ago may be the one just made.
    unknown.clear();
    for (const [digest, { caller }] of known) if (isConcerned(caller)) known.delete(digest);
  }

  function authenticate(secret: string): Caller | Promise<Caller> {
    const digest = hash("sha256", secret, "base64");
    const entry = known.get(digest);
    if (entry && entry.untilMs > nowMs()) {
      entry.wasUsed = true;
      // Moved to the end: the first is then the one unused for longest.
      known.delete(digest);
      known.set(digest, entry);
      return entry.caller;
    }
    if (!looksLikeApiKey(secret)) throw refused();
    const until = unknown.get(digest);
    if (until !== undefined && until > nowMs()) throw refused();
    let answer = asking.get(digest);
    if (!answer) {
      answer = ask(secret, digest).finally(() => asking.delete(digest));
      asking.set(digest, answer);
    }
    return answer;
  }

  function refused(): InvalidApiKey {
    failures.inc({ reason: "unknown" });
    return new InvalidApiKey();
  }

  async function ask(secret: string, digest: string): Promise<Caller> {
    const lookup = lookupOf(deps.secrets, secret);
    const seen = changes;
    let row: KeyRow | undefined;
    try {
      row = await deps.store.findKey(lookup);
      // Something was revoked while the answer was on its way: ask again rather than keep what may be old.
      if (seen !== changes) row = await deps.store.findKey(lookup);
    } catch (error) {
      throw new AccountStoreAway(error);
    }
    if (!row || !timingSafeEqual(row.lookup, lookup)) {
      if (unknown.size >= mostUnknown) unknown.delete(unknown.keys().next().value as string);
      unknown.set(digest, nowMs() + unknownForMs);
      throw refused();
    }
    const caller = callerOf(row);
    if (changes - seen <= 1) remember(digest, caller);
    return caller;
  }

  function remember(digest: string, caller: Caller): void {
    if (known.size >= mostKnown) {
      const [oldest, entry] = known.entries().next().value as [string, Known];
      if (entry.wasUsed) usedKeys.add(entry.caller.key);
      known.delete(oldest);
    }
    known.set(digest, { caller, untilMs: nowMs() + knownForMs, wasUsed: true });
  }

  async function writeLastUsed(): Promise<void> {
    for (const entry of known.values()) {
      if (entry.wasUsed) usedKeys.add(entry.caller.key);
      entry.wasUsed = false;
    }
    if (usedKeys.size === 0) return;
    const keys = [...usedKeys];
    usedKeys.clear();
    const at = new Date();
    await deps.store
      .keysUsed(new Map(keys.map((key) => [key, at])))
      .catch((error) => deps.log.warn({ err: error }, "last use of keys was not written"));
  }

  return {
    authenticate,
    start() {
      loop ??= (async () => {
        while (!stopping.signal.aborted) {
          await wait(lastUsedEveryMs, undefined, { signal: stopping.signal }).catch(() => {});
          await writeLastUsed();
        }
      })();
    },
    async stop() {
      stopping.abort();
      await loop;
    },
  };
}

function callerOf({ key, account }: KeyRow): Caller {
  return Object.freeze({
    account: account.account,
    key,
    displayName: account.displayName,
    email: account.email,
    isAdmin: account.isAdmin,
    suspendReason: account.suspendReason,
    via: "key",
    models: null,
    expiresAtMs: null,
    spending: noLimits,
  });
}
