// From a presented secret to a Caller: an API key, or a scoped token signed with one. What was verified in the last minutes
// is answered from memory, synchronously; revocations arrive over the change feed and clear it.
import { hash, timingSafeEqual } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { Counter, type Registry } from "prom-client";
import { addressTest } from "./allowed-ips.ts";
import { looksLikeApiKey } from "./api-key.ts";
import { type Authenticator, type Caller, noLimits } from "./caller.ts";
import { type AccountSecrets, lookupOf } from "./envelope.ts";
import { AccountStoreAway, InvalidApiKey } from "./errors.ts";
import { budgetOf, isCurrent, isSignedWith, jwtPrefix, mostJwtBytes, readClaims, readJwt } from "./jwt-format.ts";
import { type Credential, KnownCredentials } from "./known-credentials.ts";
import { createSigningKeys } from "./signing-keys.ts";
import type { AccountStore, KeyRow } from "./store.ts";

export interface AuthenticatorDeps {
  readonly store: Pick<AccountStore, "findKey" | "findOwnKey" | "findSigningKey" | "keysUsed">;
  readonly secrets: AccountSecrets;
  readonly log: Logger;
  readonly registry: Registry;
  /** Topics `key` (subject: key id) and `account` (subject: account id). */
  readonly changes: { on(topic: "key" | "account", handler: (subject: string) => void): void };
  /** Monotonic. */
  readonly nowMs?: () => number;
  readonly unixMs?: () => number;
}

/** The last secret of each connection, with its SHA-256. */
const lastSecrets = new WeakMap<object, { readonly secret: string; readonly digest: string }>();

function digestOf(secret: string, connection: object | undefined): string {
  const last = connection && lastSecrets.get(connection);
  if (last?.secret === secret) return last.digest;
  const digest = hash("sha256", secret, "base64");
  if (connection) lastSecrets.set(connection, { secret, digest });
  return digest;
}

export interface RunningAuthenticator extends Authenticator {
  /** A moment in the order of changes, for `again`. */
  now(): number;
  /**
   * A caller that was admitted at `since` as it is now: looked up only where its key or account changed meanwhile. Throws
   * InvalidApiKey when the key is gone or the token has expired, AccountStoreAway.
   */
  again(caller: Caller, since: number): Caller | Promise<Caller>;
  start(): void;
  /** Writes when keys were last used, once more. */
  stop(): Promise<void>;
}

const lastUsedEveryMs = 30_000;
/** Where something changes all the time, the last answer counts for its one request and is not kept. */
const mostLooks = 5;
const mostChanged = 10_000;

export function createAuthenticator(deps: AuthenticatorDeps): RunningAuthenticator {
  const nowMs = deps.nowMs ?? (() => performance.now());
  const unixMs = deps.unixMs ?? Date.now;
  // Apart: whoever mints a token per request must not push other accounts' keys out of memory.
  const keys = new KnownCredentials(nowMs, unixMs);
  const jwts = new KnownCredentials(nowMs, unixMs);
  const signingKeys = createSigningKeys({ store: deps.store, secrets: deps.secrets, nowMs });
  const asking = new Map<string, Promise<Credential>>();
  /** Rises with every change: an answer that was under way meanwhile may be out of date. */
  let changes = 0;
  /** By key or account: which change concerned it last. The oldest are dropped, and what is before them counts as changed. */
  const changed = new Map<string, number>();
  let knownSince = 0;
  const noteChange = (subject: string) => {
    changes += 1;
    changed.delete(subject);
    changed.set(subject, changes);
    if (changed.size <= mostChanged) return;
    const [oldest, at] = changed.entries().next().value as [string, number];
    changed.delete(oldest);
    knownSince = at;
  };
  const stopping = new AbortController();
  let loop: Promise<void> | undefined;
  const failures = new Counter({
    name: "stoker_auth_failures_total",
    help: "Refused credentials",
    labelNames: ["reason"] as const,
    registers: [deps.registry],
  });

  deps.changes.on("key", (subject) => {
    noteChange(`key ${subject}`);
    signingKeys.forget((row) => row.key === subject);
    for (const known of [keys, jwts]) known.forget((caller) => caller.key === subject);
  });
  deps.changes.on("account", (subject) => {
    noteChange(`account ${subject}`);
    signingKeys.forget((row) => row.account.account === subject);
    for (const known of [keys, jwts]) known.forget((caller) => caller.account === subject);
  });

  function authenticate(secret: string, ip: string, connection?: object): Caller | Promise<Caller> {
    if (secret.length > mostJwtBytes) throw refused("unknown");
    const isJwt = secret.startsWith(jwtPrefix);
    const known = isJwt ? jwts : keys;
    const digest = digestOf(secret, connection);
    const credential = known.get(digest);
    if (credential) return admitted(credential, ip);
    if (!isJwt && !looksLikeApiKey(secret)) throw refused("unknown");
    if (known.wasRefused(digest)) throw refused("unknown");
    let answer = asking.get(digest);
    if (!answer) {
      const look = isJwt ? () => verifyJwt(secret) : () => findKey(secret);
      answer = ask(look, known, digest).finally(() => asking.delete(digest));
      asking.set(digest, answer);
    }
    return answer.then((found) => admitted(found, ip));
  }

  function admitted(credential: Credential, ip: string): Caller {
    if (credential.mayComeFrom && !credential.mayComeFrom(ip)) throw refused("address");
    credential.wasUsed = true;
    return credential.caller;
  }

  function refused(reason: "unknown" | "address"): InvalidApiKey {
    failures.inc({ reason });
    return new InvalidApiKey();
  }

  /** What was read while something was revoked may be what was revoked: it is read again. */
  async function ask(
    look: () => Promise<Credential | undefined>,
    known: KnownCredentials,
    digest: string,
  ): Promise<Credential> {
    for (let looks = 1; ; looks++) {
      const seen = changes;
      let found: Credential | undefined;
      try {
        found = await look();
      } catch (error) {
        throw new AccountStoreAway(error);
      }
      if (seen !== changes && looks < mostLooks) continue;
      if (seen === changes) known.keep(digest, found);
      if (found) return found;
      throw refused("unknown");
    }
  }

  function again(caller: Caller, since: number): Caller | Promise<Caller> {
    if (caller.expiresAtMs !== null && caller.expiresAtMs <= unixMs()) throw refused("unknown");
    // A browser's session has no key, and its requests no wait of their own.
    if (caller.via === "session") return caller;
    const lastChange = Math.max(
      knownSince,
      changed.get(`key ${caller.key}`) ?? 0,
      changed.get(`account ${caller.account}`) ?? 0,
    );
    return lastChange <= since ? caller : lookAgain(caller);
  }

  async function lookAgain(caller: Caller): Promise<Caller> {
    const row = await deps.store.findOwnKey(caller.account, caller.key).catch((error) => {
      throw new AccountStoreAway(error);
    });
    if (!row) throw refused("unknown");
    if (caller.via === "key") return callerOf(row);
    const { isAdmin, via, models, expiresAtMs } = caller;
    const spending = { ...limitsOf(row), token: caller.spending.token };
    return Object.freeze({ ...callerOf(row), isAdmin, via, models, expiresAtMs, spending });
  }

  async function findKey(secret: string): Promise<Credential | undefined> {
    const lookup = lookupOf(deps.secrets, secret);
    const row = await deps.store.findKey(lookup);
    if (!row || !timingSafeEqual(row.lookup, lookup)) return undefined;
    return { caller: callerOf(row), mayComeFrom: addressTest(row.allowedIps), wasUsed: false };
  }

  /** Which check failed is never told, nor by the time it took: an unknown key costs an HMAC as well. */
  async function verifyJwt(text: string): Promise<Credential | undefined> {
    const token = readJwt(text);
    if (!token) return undefined;
    const key = await signingKeys.find(token.account, token.keyName);
    const isSigned = isSignedWith(token, key?.secret ?? "no such key");
    if (!key || !isSigned) return undefined;
    const claims = readClaims(token);
    if (!claims || !isCurrent(claims, unixMs())) return undefined;
    const caller: Caller = Object.freeze({
      ...callerOf(key.row),
      // What the account may administer, its tokens may not.
      isAdmin: false,
      via: "jwt",
      models: claims.models && new Set(claims.models),
      expiresAtMs: claims.expiresAtS * 1000,
      spending: { ...limitsOf(key.row), token: { budget: budgetOf(token), limit: claims.limit } },
    });
    return { caller, mayComeFrom: addressTest(key.row.allowedIps), wasUsed: false };
  }

  async function writeLastUsed(): Promise<void> {
    const used = new Set([...keys.takeUsedKeys(), ...jwts.takeUsedKeys()]);
    if (used.size === 0) return;
    const at = new Date();
    await deps.store
      .keysUsed(new Map([...used].map((key) => [key, at])))
      .catch((error) => deps.log.warn({ err: error }, "last use of keys was not written"));
  }

  return {
    authenticate,
    now: () => changes,
    again,
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

/** Whoever presents this key. */
export function callerOf(row: KeyRow): Caller {
  const { key, account } = row;
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
    spending: limitsOf(row),
  });
}

const limitsOf = ({ hasAccountLimit, hasKeyLimit }: KeyRow): Caller["spending"] =>
  hasAccountLimit || hasKeyLimit ? { hasAccountLimit, hasKeyLimit, token: null } : noLimits;
