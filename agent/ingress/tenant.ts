// Keyed digest that replaces the account in requests to engines, so that they keep tenants apart without knowing them. The key
// lives as long as the agent: after a restart engines find no earlier cache of the account.
import { createHmac, randomBytes } from "node:crypto";
import { cacheScopeHeader, tenantHeader } from "../../proto/engine-headers.ts";
import type { RouteTarget } from "../reconcile/ports.ts";
import { isSpace } from "./find-usage.ts";

export type TenantOf = (account: string) => string;

const maxKept = 10_000;

export function createTenantDigest(key: Buffer = randomBytes(32)): TenantOf {
  const known = new Map<string, string>();
  return (account) => {
    let digest = known.get(account);
    if (digest !== undefined) return digest;
    digest = createHmac("sha256", key).update(account).digest("base64url");
    if (known.size >= maxKept) known.clear();
    known.set(account, digest);
    return digest;
  };
}

type Isolation = Pick<RouteTarget, "cacheIsolation" | "sharesPrefixCache">;

/** One scope for all accounts of a deployment whose operator shares its prefix cache. */
const sharedScope = "shared";

export function tenantHeaders({ cacheIsolation, sharesPrefixCache }: Isolation, tenant: string): string[] {
  if (cacheIsolation === "none") return [];
  return sharesPrefixCache ? [tenantHeader, tenant, cacheScopeHeader, sharedScope] : [tenantHeader, tenant];
}

const generationPaths: ReadonlySet<string> = new Set(["/v1/completions", "/v1/chat/completions"]);
const [open, close] = [0x7b, 0x7d];

/**
 * The body as the engine gets it. Engines that key their prefix cache by a body field get `cache_salt` as the last member:
 * JSON parsers keep the last of two members of one name, so no client can replace it. A body with another end is not a JSON
 * object, and every engine refuses it.
 */
export function saltedBody(target: Isolation, path: string, tenant: string, body: Buffer): Buffer {
  if (target.cacheIsolation !== "body" || target.sharesPrefixCache || !generationPaths.has(path)) return body;
  const end = lastInk(body, body.length);
  if (body[end] !== close) return body;
  const isEmpty = body[lastInk(body, end)] === open;
  return Buffer.concat([body.subarray(0, end), Buffer.from(`${isEmpty ? "" : ","}"cache_salt":"${tenant}"}`)]);
}

/** Returns the index of the last byte before `before` that is not JSON white space; -1 if there is none. */
function lastInk(bytes: Buffer, before: number): number {
  let at = before - 1;
  while (at >= 0 && isSpace(bytes[at])) at--;
  return at;
}
