// Public keys of issuers that customers' rules name: read by discovery, kept for minutes, and asked for seldom. Nothing here is kept
// longer than its owner publishes it by much, and a slow or faulty issuer delays its own tokens only.
import { createLocalJWKSet, type JSONWebKeySet, type JWTVerifyGetKey } from "jose";
import type { JudgedFetch } from "./judged-fetch.ts";

const freshMs = 300_000;
/** An unknown key, or a failure, causes another request at most this often. */
const pauseMs = 15_000;
const maxIssuers = 500;
/** Concurrent requests to all issuers. */
const maxRunning = 16;
const maxKeys = 100;

interface Known {
  readonly atMs: number;
  readonly keys: Promise<JWTVerifyGetKey>;
}

export class IssuerBusy extends Error {}

export function createIssuerKeys(
  fetchOf: (issuer: string) => JudgedFetch,
  nowMs: () => number = () => performance.now(),
) {
  const known = new Map<string, Known>();
  let running = 0;

  async function json(issuer: string, url: string): Promise<Record<string, unknown>> {
    const response = await fetchOf(issuer)(url, { headers: { accept: "application/json" } });
    if (response.status !== 200) throw new Error(`${new URL(url).host} replied ${response.status}`);
    const value: unknown = await response.json();
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("the reply is no object");
    return value as Record<string, unknown>;
  }

  async function read(issuer: string): Promise<JWTVerifyGetKey> {
    running += 1;
    try {
      const { issuer: named, jwks_uri: keysUrl } = await json(
        issuer,
        `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`,
      );
      if (named !== issuer) throw new Error("the metadata names another issuer");
      if (typeof keysUrl !== "string" || !URL.canParse(keysUrl)) throw new Error("the metadata names no keys");
      const set = await json(issuer, keysUrl);
      if (!Array.isArray(set["keys"]) || set["keys"].length > maxKeys) throw new Error("the keys cannot be read");
      return createLocalJWKSet(set as unknown as JSONWebKeySet);
    } finally {
      running -= 1;
    }
  }

  return {
    /** `isStale`: the known keys did not fit. Rejects when they cannot be read; IssuerBusy: too many requests are running. */
    async of(issuer: string, isStale = false): Promise<JWTVerifyGetKey> {
      const last = known.get(issuer);
      if (last && nowMs() - last.atMs < (isStale ? pauseMs : freshMs)) return last.keys;
      if (running >= maxRunning) throw new IssuerBusy();
      const keys = read(issuer);
      known.delete(issuer);
      known.set(issuer, { atMs: nowMs(), keys });
      if (known.size > maxIssuers) known.delete(known.keys().next().value as string);
      keys.catch(() => {
        // A failure is remembered for a short time only.
        if (known.get(issuer)?.keys === keys) known.set(issuer, { atMs: nowMs() - freshMs + pauseMs, keys });
      });
      return keys;
    },
  };
}

export type IssuerKeys = ReturnType<typeof createIssuerKeys>;
