// Turns a secret into a Caller: an API key, or a scoped token signed with one. Recently verified secrets are answered from
// memory, synchronously; revocations arrive over the change feed and clear them.

import { hash, timingSafeEqual } from "node:crypto";
import type { Logger } from "pino";
import { Counter, type Registry } from "prom-client";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { background, repeat } from "../../proto/repeat.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import { addressTest } from "./allowed-ips.ts";
import { looksLikeApiKey } from "./api-key.ts";
import { type Authenticator, bothModels, type Caller, earlier, noLimits } from "./caller.ts";
import { type AccountSecrets, lookupOf, openApiKey, unwrapDek } from "./envelope.ts";
import { InvalidApiKey } from "./errors.ts";
import { budgetOf, isCurrent, jwtPrefix, maxJwtBytes, readJwt, verifyJwt } from "./jwt-format.ts";
import { isExpired } from "./key-rules.ts";
import { type Credential, KnownCredentials } from "./known-credentials.ts";
import { holds, roleRefusal } from "./permissions.ts";
import type { AccountStore, KeyRow } from "./store.ts";

export interface AuthenticatorDeps {
  readonly store: Pick<AccountStore, "findKey" | "findOwnKey" | "findSigningKey" | "keysUsed">;
  readonly secrets: AccountSecrets;
  readonly log: Logger;
  readonly registry: Registry;
  /** Topics `key` (subject: key id) and `account` (subject: account id). */
  readonly changes: { on(topic: "key" | "account", handler: (subject: string) => void): void };
  /** Called before the database is queried for a secret that is not in memory. An error refuses the request. */
  readonly beforeLookUp?: (ip: string) => void;
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
  /** Position in the order of changes, for `again`. */
  now(): number;
  /**
   * Returns the current state of a caller admitted at `since`; looks it up only when its key or account changed. Throws
   * InvalidApiKey when the key is gone, no longer allows `address`, or the token has expired, DatabaseUnavailable.
   */
  again(caller: Caller, since: number, address?: string): Caller | Promise<Caller>;
  start(): void;
  /** Writes the last-used times of keys once more. */
  stop(): Promise<void>;
}

const lastUsedEveryMs = 30_000;
/** When changes keep arriving, the last result serves one request and is not cached. */
const maxPolls = 5;
const maxChanged = 10_000;

export function createAuthenticator(deps: AuthenticatorDeps): RunningAuthenticator {
  const nowMs = deps.nowMs ?? (() => performance.now());
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
  // Separate caches: a caller that mints a token per request must not evict other accounts' keys.
  const keys = new KnownCredentials(nowMs, unixMs);
  const jwts = new KnownCredentials(nowMs, unixMs);
  const signingKeys = createSigningKeys({ store: deps.store, secrets: deps.secrets, nowMs });
  const asking = new Map<string, Promise<Credential>>();
  const changes = new CredentialChanges();
  const lookups = credentialLookups(deps, signingKeys, unixMs);
  const lastUsed = createLastUsed(deps, () => new Set([...keys.takeUsedKeys(), ...jwts.takeUsedKeys()]));
  const refused = countRefusals(deps.registry);

  deps.changes.on("key", (subject) => {
    changes.note(`key ${subject}`);
    signingKeys.forget((row) => row.key === subject);
    for (const known of [keys, jwts]) known.forget((caller) => caller.key === subject);
  });
  deps.changes.on("account", (subject) => {
    changes.note(`account ${subject}`);
    signingKeys.forget((row) => row.account.account === subject || row.member?.person === subject);
    for (const known of [keys, jwts])
      known.forget((caller) => caller.account === subject || caller.member?.person === subject);
  });

  function authenticate(secret: string, ip: string, connection?: object): Caller | Promise<Caller> {
    if (secret.length > maxJwtBytes) throw refused("unknown");
    const isJwt = secret.startsWith(jwtPrefix);
    const known = isJwt ? jwts : keys;
    const digest = digestOf(secret, connection);
    const credential = known.get(digest);
    if (credential) return admitted(credential, ip);
    if (!isJwt && !looksLikeApiKey(secret)) throw refused("unknown");
    if (known.wasRefused(digest)) throw refused("unknown");
    let answer = asking.get(digest);
    if (!answer) {
      deps.beforeLookUp?.(ip);
      const look = isJwt ? () => lookups.signer(secret) : () => lookups.key(secret);
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

  /** A result read during a revocation may be stale: read again. */
  async function ask(
    look: () => Promise<Credential | undefined>,
    known: KnownCredentials,
    digest: string,
  ): Promise<Credential> {
    for (let looks = 1; ; looks++) {
      const seen = changes.count;
      let found: Credential | undefined;
      try {
        found = await look();
      } catch (error) {
        throw DatabaseUnavailable.from(error);
      }
      if (seen !== changes.count && looks < maxPolls) continue;
      if (seen === changes.count) known.store(digest, found);
      if (found) return found;
      throw refused("unknown");
    }
  }

  function again(caller: Caller, since: number, address?: string): Caller | Promise<Caller> {
    if (caller.expiresAtMs !== null && caller.expiresAtMs <= unixMs()) throw refused("unknown");
    // A browser session has no key, and its requests do not wait.
    if (caller.via === "session") return caller;
    return changes.lastOf(topicsOf(caller)) <= since ? caller : lookAgain(caller, address);
  }

  async function lookAgain(caller: Caller, address: string | undefined): Promise<Caller> {
    const row = await deps.store.findOwnKey(caller.account, caller.key).catch((error) => {
      throw DatabaseUnavailable.from(error);
    });
    if (!row || isExpired(row, unixMs())) throw refused("unknown");
    if (address !== undefined && addressTest(row.allowedIps)?.(address) === false) throw refused("address");
    const current = callerOf(row);
    // Only inference waits.
    const refusal = roleRefusal("infer", current);
    if (refusal) throw refusal;
    if (caller.via === "key") return current;
    const { models, expiresAtMs, spending, role } = caller;
    return tokenCallerOf(row, { models, expiresAtMs, budget: spending.token, isForRealtime: role === "realtime" });
  }

  return {
    authenticate,
    now: () => changes.count,
    again,
    start: lastUsed.start,
    stop: lastUsed.stop,
  };
}

/** Returns the error of a refused credential, and counts it. */
function countRefusals(registry: Registry): (reason: "unknown" | "address") => InvalidApiKey {
  const failures = new Counter({
    name: "stoker_auth_failures_total",
    help: "Refused credentials",
    labelNames: ["reason"] as const,
    registers: [registry],
  });
  return (reason) => {
    failures.inc({ reason });
    return new InvalidApiKey();
  };
}

/** Changes of keys and accounts, in their order. */
class CredentialChanges {
  /** Rises with every change: a result read before it may be stale. */
  count = 0;
  /** Last change by key or account. The oldest are dropped; anything older counts as changed. */
  readonly #last = new Map<string, number>();
  #knownSince = 0;

  note(subject: string): void {
    this.count += 1;
    this.#last.delete(subject);
    this.#last.set(subject, this.count);
    if (this.#last.size <= maxChanged) return;
    const [oldest, at] = this.#last.entries().next().value as [string, number];
    this.#last.delete(oldest);
    this.#knownSince = at;
  }

  lastOf(subjects: readonly string[]): number {
    return Math.max(this.#knownSince, ...subjects.map((subject) => this.#last.get(subject) ?? 0));
  }
}

/** Changes that concern a caller. The key of a member ends with the person's own account. */
const topicsOf = ({ key, account, member }: Caller): string[] => [
  `key ${key}`,
  `account ${account}`,
  ...(member?.person ? [`account ${member.person}`] : []),
];

/** Reads credentials from the database. Undefined: the secret is not valid. */
function credentialLookups(
  { store, secrets }: Pick<AuthenticatorDeps, "store" | "secrets">,
  signingKeys: ReturnType<typeof createSigningKeys>,
  unixMs: () => number,
) {
  return {
    async key(secret: string): Promise<Credential | undefined> {
      const lookup = lookupOf(secrets, secret);
      const row = await store.findKey(lookup);
      if (!row || !timingSafeEqual(row.lookup, lookup) || isExpired(row, unixMs())) return undefined;
      return { caller: callerOf(row), mayComeFrom: addressTest(row.allowedIps), wasUsed: false };
    },

    /** The failed check is revealed neither by message nor by timing: an unknown key also costs an HMAC. */
    async signer(text: string): Promise<Credential | undefined> {
      const token = readJwt(text);
      if (!token) return undefined;
      const key = await signingKeys.find(token.account, token.keyName);
      const claims = await verifyJwt(token, key?.secret ?? "no such key");
      if (!key || !claims || !isCurrent(claims, unixMs()) || isExpired(key.row, unixMs())) return undefined;
      const caller = tokenCallerOf(key.row, {
        models: claims.models && new Set(claims.models),
        expiresAtMs: claims.expiresAtS * 1000,
        budget: { budget: budgetOf(token), limit: claims.limit },
        isForRealtime: claims.isForRealtime,
      });
      return { caller, mayComeFrom: addressTest(key.row.allowedIps), wasUsed: false };
    },
  };
}

/** Writes the last-used times of keys every half minute. */
function createLastUsed({ store, log }: Pick<AuthenticatorDeps, "store" | "log">, takeUsed: () => ReadonlySet<KeyId>) {
  async function write(): Promise<void> {
    const used = takeUsed();
    if (used.size === 0) return;
    const at = new Date();
    await store
      .keysUsed(new Map([...used].map((key) => [key, at])))
      .catch((error) => log.warn({ err: error }, "could not write last use of keys"));
  }
  const writing = background((signal) => repeat(lastUsedEveryMs, signal, write));
  return {
    start: writing.start,
    async stop(): Promise<void> {
      await writing.stop();
      await write();
    },
  };
}

/** Returns the caller of this key. */
export function callerOf(row: KeyRow): Caller {
  const { key, account, member, role, expiresAtMs, trustsUserHeaders, requestsPerMinute, tokensPerMinute } = row;
  return Object.freeze({
    account: account.account,
    key,
    displayName: account.displayName,
    email: account.email,
    isAdmin: account.isAdmin && role === "admin" && member === null,
    role,
    suspendReason: account.suspendReason,
    via: "key",
    models: row.allowedModels && new Set(row.allowedModels),
    expiresAtMs,
    spending: limitsOf(row),
    rates: requestsPerMinute === null && tokensPerMinute === null ? null : { requestsPerMinute, tokensPerMinute },
    trustsUserHeaders,
    mayPrioritize: account.mayPrioritize,
    ...(member && { member }),
  });
}

/** Returns the caller of a token with these restrictions: at most what the key that signed it may do now. */
function tokenCallerOf(
  row: KeyRow,
  token: Pick<Caller, "models" | "expiresAtMs"> & {
    readonly budget: Caller["spending"]["token"];
    readonly isForRealtime: boolean;
  },
): Caller {
  const key = callerOf(row);
  return Object.freeze({
    ...key,
    // Tokens do not inherit an account's administrator rights.
    isAdmin: false,
    role: key.role === "read" ? "read" : token.isForRealtime ? "realtime" : "inference",
    via: "jwt",
    // A page holds the token: it must not name other end users.
    trustsUserHeaders: false,
    models: bothModels(key.models, token.models),
    expiresAtMs: earlier(key.expiresAtMs, token.expiresAtMs),
    spending: { ...limitsOf(row), token: token.budget },
  });
}

/** Returns the caller of work that outlives its request; undefined when its key may not run inference any more. */
export function laterCallerOf(row: KeyRow | undefined, unixMs: number): Caller | undefined {
  if (!row || isExpired(row, unixMs)) return undefined;
  const caller = callerOf(row);
  return holds("infer", caller) ? caller : undefined;
}

const limitsOf = ({ hasAccountLimit, hasKeyLimit, projectId }: KeyRow): Caller["spending"] =>
  hasAccountLimit || hasKeyLimit || projectId !== null
    ? { hasAccountLimit, hasKeyLimit, token: null, ...(projectId !== null && { project: projectId }) }
    : noLimits;

// Opened signing keys of scoped tokens. Cached for minutes: a caller that mints a token per end user would otherwise cost a
// database call each. A revocation over the change feed clears them.
interface SigningKey {
  readonly row: KeyRow;
  readonly secret: string;
}

const keptForMs = 300_000;
const max = 10_000;

interface SigningKeys {
  /** Undefined when there is no such live key. Throws what the store throws. */
  find(account: AccountId, name: string): SigningKey | undefined | Promise<SigningKey | undefined>;
  forget(isConcerned: (row: KeyRow) => boolean): void;
}

function createSigningKeys(deps: {
  readonly store: Pick<AccountStore, "findSigningKey">;
  readonly secrets: AccountSecrets;
  /** Monotonic. */
  readonly nowMs: () => number;
}): SigningKeys {
  /** Least recently used first; keyed by account, NUL and name, so that no account id collides with a name. */
  const kept = new Map<string, SigningKey & { readonly untilMs: number }>();
  let changes = 0;

  async function ask(account: AccountId, name: string, at: string): Promise<SigningKey | undefined> {
    const seen = changes;
    const row = await deps.store.findSigningKey(account, name);
    if (!row) return undefined;
    const dek = unwrapDek(deps.secrets, row.wrappedDek, account);
    const key = { row, secret: openApiKey(dek, row.ciphertext, account, row.key) };
    if (seen === changes) {
      kept.set(at, { ...key, untilMs: deps.nowMs() + keptForMs });
      if (kept.size > max) kept.delete(kept.keys().next().value as string);
    }
    return key;
  }

  return {
    find(account, name) {
      const at = `${account}\0${name}`;
      const key = kept.get(at);
      if (key && key.untilMs > deps.nowMs()) {
        kept.delete(at);
        kept.set(at, key);
        return key;
      }
      kept.delete(at);
      return ask(account, name, at);
    },
    forget(isConcerned) {
      changes += 1;
      for (const [at, { row }] of kept) if (isConcerned(row)) kept.delete(at);
    },
  };
}
