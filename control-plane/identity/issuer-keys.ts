// Public keys of issuers that customers' rules name: read by discovery and kept for minutes. A key that an issuer has withdrawn counts for
// five minutes more. Each account has its own keys and its own reads in progress, so a slow or faulty issuer of one account neither
// delays the tokens of another nor displaces its keys, as long as the limits of all accounts together are not reached.
import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import type { AccountId } from "../../proto/ids.ts";
import type { JudgedFetch } from "./judged-fetch.ts";

const freshMs = 300_000;
/** An unknown key, or a failure, causes another request at most this often. */
const pauseMs = 15_000;
const maxKeys = 100;
const maxKeyBytes = 65_536;

export const issuerLimits = {
  /** Issuers of an account whose keys are kept; also those that are being read. */
  perAccount: 4,
  /** Accounts of which keys are kept, those used last. */
  accounts: 500,
  /** Issuers that are being read for all accounts. */
  running: 64,
} as const;

interface Known {
  readonly atMs: number;
  readonly keys: Promise<JWTVerifyGetKey>;
}

/** The issuers of one account, that used last at the end. */
interface Owned {
  readonly known: Map<string, Known>;
  running: number;
}

export class IssuerBusy extends Error {}

export function createIssuerKeys(
  fetchOf: (issuer: string) => JudgedFetch,
  nowMs: () => number = () => performance.now(),
) {
  const accounts = new Map<AccountId, Owned>();
  let running = 0;

  async function json(issuer: string, url: string): Promise<Record<string, unknown>> {
    const response = await fetchOf(issuer)(url, { headers: { accept: "application/json" } });
    if (response.status !== 200) throw new Error(`${new URL(url).host} replied ${response.status}`);
    const value: unknown = await response.json();
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("the reply is no object");
    return value as Record<string, unknown>;
  }

  async function read(issuer: string): Promise<JWTVerifyGetKey> {
    const { issuer: named, jwks_uri: keysUrl } = await json(
      issuer,
      `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`,
    );
    if (named !== issuer) throw new Error("the metadata names another issuer");
    if (typeof keysUrl !== "string" || !URL.canParse(keysUrl)) throw new Error("the metadata names no keys");
    const { keys } = await json(issuer, keysUrl);
    if (!Array.isArray(keys) || keys.length > maxKeys || JSON.stringify(keys).length > maxKeyBytes)
      throw new Error("the keys cannot be read");
    return createLocalJWKSet({ keys } as unknown as JSONWebKeySet);
  }

  function ownedBy(account: AccountId): Owned {
    const owned = accounts.get(account) ?? { known: new Map<string, Known>(), running: 0 };
    moveToEnd(accounts, account, owned, issuerLimits.accounts);
    return owned;
  }

  function start(owned: Owned, issuer: string): Promise<JWTVerifyGetKey> {
    if (running >= issuerLimits.running || owned.running >= issuerLimits.perAccount) throw new IssuerBusy();
    running += 1;
    owned.running += 1;
    return read(issuer).finally(() => {
      running -= 1;
      owned.running -= 1;
    });
  }

  return {
    /** `isStale`: the known keys did not fit. Rejects when they cannot be read; IssuerBusy: too many are being read. */
    async of(account: AccountId, issuer: string, isStale = false): Promise<JWTVerifyGetKey> {
      const owned = ownedBy(account);
      const last = owned.known.get(issuer);
      const isFresh = last && nowMs() - last.atMs < (isStale ? pauseMs : freshMs);
      const entry = isFresh ? last : { atMs: nowMs(), keys: start(owned, issuer) };
      moveToEnd(owned.known, issuer, entry, issuerLimits.perAccount);
      if (!isFresh)
        entry.keys.catch(() => {
          // A failure is remembered for a short time only.
          if (owned.known.get(issuer) === entry)
            owned.known.set(issuer, { ...entry, atMs: nowMs() - freshMs + pauseMs });
        });
      return entry.keys;
    },
  };
}

export type IssuerKeys = ReturnType<typeof createIssuerKeys>;

/** Makes the entry the last one, and removes the first of too many. */
function moveToEnd<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, max: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > max) map.delete(map.keys().next().value as Key);
}
