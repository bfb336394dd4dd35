// Rules of an API key: role, models, addresses, expiry and rates. Tokens signed with a key never exceed it.
import { invalid } from "../service-error.ts";
import { areWithin, badAddress } from "./allowed-ips.ts";
import { badAllowedIps, badExpiry } from "./token-errors.ts";

/**
 * `admin`: everything its account may do; `read`: reading only; `inference`: inference and the list of models, as a scoped token.
 */
export const keyRoles = ["admin", "read", "inference"] as const;
export type KeyRole = (typeof keyRoles)[number];

export interface KeyRules {
  /** Addresses and CIDR blocks the key may be used from; null: anywhere. */
  readonly allowedIps: readonly string[] | null;
  /** Exact names of models for inference; null: any. */
  readonly allowedModels: readonly string[] | null;
  /** Unix ms; null: never. */
  readonly expiresAtMs: number | null;
  readonly requestsPerMinute: number | null;
  /** Input and output. */
  readonly tokensPerMinute: number | null;
  readonly role: KeyRole;
  /** The end user in `X-OpenWebUI-User-*` headers counts. */
  readonly trustsUserHeaders: boolean;
}

export const noRules: KeyRules = {
  allowedIps: null,
  allowedModels: null,
  expiresAtMs: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
  role: "admin",
  trustsUserHeaders: false,
};

const maxAllowedIps = 256;
const maxLifeMs = 10 * 366 * 86_400_000;

/** Throws badAllowedIps, badExpiry, emptyChange. Counts and lengths of the other fields are bounded by the schema. */
export function checkRules(change: Partial<KeyRules>, unixMs: number): void {
  if (Object.keys(change).length === 0) throw emptyChange();
  const { allowedIps, expiresAtMs } = change;
  if (allowedIps) checkAllowedIps(allowedIps);
  if (expiresAtMs == null) return;
  if (expiresAtMs <= unixMs) throw badExpiry("`expires_at` is in the past. Give a later time.", "expires_at");
  if (expiresAtMs > unixMs + maxLifeMs)
    throw badExpiry(
      "`expires_at` must be at most ten years away. Give an earlier time, or null for none.",
      "expires_at",
    );
}

/** True if the change allows something that the rules did not. */
export function loosens(before: KeyRules, change: Partial<KeyRules>): boolean {
  const { role, allowedIps, allowedModels } = change;
  const maximums = ["expiresAtMs", "requestsPerMinute", "tokensPerMinute"] as const;
  return (
    maximums.some((name) => exceeds(before[name], change[name])) ||
    (role !== undefined && role !== before.role && before.role !== "admin") ||
    isWider(before.allowedIps, allowedIps, areWithin) ||
    isWider(before.allowedModels, allowedModels, (some, of) => some.every((model) => of.includes(model)))
  );
}

/** Null: no limit. Undefined: unchanged. */
const exceeds = (before: number | null, after: number | null | undefined): boolean =>
  before !== null && after !== undefined && (after === null || after > before);

const isWider = (
  before: readonly string[] | null,
  after: readonly string[] | null | undefined,
  areIn: (some: readonly string[], of: readonly string[]) => boolean,
): boolean => before !== null && after !== undefined && (after === null || !areIn(after, before));

export const isExpired = ({ expiresAtMs }: Pick<KeyRules, "expiresAtMs">, unixMs: number): boolean =>
  expiresAtMs !== null && expiresAtMs <= unixMs;

function checkAllowedIps(allowedIps: readonly string[]): void {
  if (allowedIps.length === 0 || allowedIps.length > maxAllowedIps)
    throw badAllowedIps(`Name 1 to ${maxAllowedIps} addresses or blocks, or null for anywhere.`);
  const bad = badAddress(allowedIps);
  if (bad !== undefined)
    throw badAllowedIps(`\`${bad.slice(0, 60)}\` is neither an IP address nor a CIDR block such as 10.0.0.0/8.`);
}

const emptyChange = () =>
  invalid("empty_change", "Name at least one field to change, such as `allowed_ips`.", { param: "allowed_ips" });
