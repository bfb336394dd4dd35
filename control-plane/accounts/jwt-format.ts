// The format of a scoped token: `jwt:` and a JWT of three parts, signed with HS256. `jose` signs and verifies; claims are read
// from the verified payload only. This file adds the key id and the checks that jose omits: size, alphabet, repeated keys.
import { hash } from "node:crypto";
import { compactVerify, errors, SignJWT } from "jose";
import type { AccountId, BudgetId } from "../../proto/ids.ts";
import { fromUsd, type NanoUsd } from "../../proto/money.ts";

export const jwtPrefix = "jwt:";
/** Maximum length of a token, prefix included. */
export const maxJwtBytes = 8 * 1024;
/** Maximum lifetime of a token: a year, and a minute for clock differences. */
export const longestLifeS = 365 * 24 * 60 * 60;
const clockLeewayS = 60;
const maxNameBytes = 128;
/** Larger limits would exceed bigint columns, which end at 9.2e18 nano-USD. */
const maxLimitUsd = 9_000_000_000;

/** jose also accepts spaces and padding. */
const threeParts = /^([\w-]+)\.[\w-]+\.[\w-]+$/;
/** Either alphabet, with or without padding. */
const base64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** Signer that an unverified token names. */
export interface UnverifiedJwt {
  readonly account: AccountId;
  readonly keyName: string;
  /** `header.payload.signature`, as received. */
  readonly compact: string;
}

export interface Claims {
  /** Unix seconds. */
  readonly expiresAtS: number;
  /** Null: any model. */
  readonly models: readonly string[] | null;
  /** Null: no limit of its own. */
  readonly limit: NanoUsd | null;
  /** The claim `scope` is `realtime`: only for realtime sessions. A token with any other scope is invalid. */
  readonly isForRealtime: boolean;
}

/** Undefined for a token that no key of ours can have signed. */
export function readJwt(token: string): UnverifiedJwt | undefined {
  if (token.length > maxJwtBytes || !token.startsWith(jwtPrefix)) return undefined;
  const compact = token.slice(jwtPrefix.length);
  const header = threeParts.exec(compact)?.[1];
  const fields = header && jsonObject(textOf(Buffer.from(header, "base64url")));
  const signer = fields && fields["typ"] === "JWT" ? readKid(fields["kid"]) : undefined;
  return signer && { ...signer, compact };
}

/** `<user_id>:<base64(api_key_name)>`: a user id may contain colons. */
function readKid(kid: unknown): { readonly account: AccountId; readonly keyName: string } | undefined {
  if (typeof kid !== "string") return undefined;
  const colon = kid.lastIndexOf(":");
  const encoded = kid.slice(colon + 1);
  if (colon < 1 || !base64.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.length === 0 || bytes.length > maxNameBytes) return undefined;
  const keyName = bytes.toString();
  // Invalid UTF-8 would otherwise match a key with the replacement character in its name.
  if (!Buffer.from(keyName).equals(bytes)) return undefined;
  return { account: kid.slice(0, colon) as AccountId, keyName };
}

/** Claims of a token that `secret` signed. Undefined for any other, and when a claim is missing or malformed. */
export async function verifyJwt(token: UnverifiedJwt, secret: string): Promise<Claims | undefined> {
  try {
    const { payload } = await compactVerify(token.compact, Buffer.from(secret), { algorithms: ["HS256"] });
    return readClaims(textOf(payload), token.account);
  } catch (error) {
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}

function readClaims(text: string | undefined, account: AccountId): Claims | undefined {
  const claims = jsonObject(text);
  if (!claims || claims["sub"] !== account) return undefined;
  const expiresAtS = claims["exp"];
  // Parsers disagree on whether 1.7e9 and 1700000000.0 are integers.
  if (typeof expiresAtS !== "number" || !Number.isSafeInteger(expiresAtS) || !isPlainInteger(text, "exp"))
    return undefined;
  const models = readModels(claims["models"], claims["model"]);
  const limit = readLimit(claims["spending_limit"]);
  const scope = claims["scope"];
  // An unknown scope is a restriction that cannot be kept.
  const isScopeKnown = scope === undefined || scope === "realtime";
  return models === undefined || limit === undefined || !isScopeKnown
    ? undefined
    : { expiresAtS, models, limit, isForRealtime: scope === "realtime" };
}

/** Returns true while the token has not expired at `unixMs`. */
export function isCurrent({ expiresAtS }: Claims, unixMs: number): boolean {
  return expiresAtS * 1000 > unixMs && expiresAtS <= unixMs / 1000 + longestLifeS + clockLeewayS;
}

/** Computed from the signed bytes only: the signature's last character has spare bits, so one token has four spellings. */
export const budgetOf = ({ compact }: UnverifiedJwt): BudgetId =>
  `jwt/${hash("sha256", compact.slice(0, compact.lastIndexOf(".")), "base64url")}` as BudgetId;

export async function signJwt(
  signer: { readonly account: AccountId; readonly keyName: string; readonly secret: string },
  claims: Readonly<Record<string, unknown>>,
): Promise<string> {
  const kid = `${signer.account}:${Buffer.from(signer.keyName).toString("base64")}`;
  const token = new SignJWT({ sub: signer.account, ...claims }).setProtectedHeader({ alg: "HS256", typ: "JWT", kid });
  return jwtPrefix + (await token.sign(Buffer.from(signer.secret)));
}

/** Null when unrestricted. With both fields, a model must be in both. */
function readModels(many: unknown, one: unknown): readonly string[] | null | undefined {
  const list = many ?? null;
  const single = one ?? null;
  if (list !== null && !(Array.isArray(list) && list.every((name) => typeof name === "string"))) return undefined;
  if (single !== null && typeof single !== "string") return undefined;
  if (single === null) return list;
  return list === null || list.includes(single) ? [single] : [];
}

function readLimit(usd: unknown): NanoUsd | null | undefined {
  if (usd === undefined || usd === null) return null;
  if (typeof usd !== "number" || !Number.isFinite(usd) || usd < 0) return undefined;
  return fromUsd(Math.min(usd, maxLimitUsd));
}

/** Undefined for non-objects and for duplicate keys, which parsers treat differently. */
function jsonObject(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value) || hasTwice(text)) return undefined;
  return value as Record<string, unknown>;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Returns true when the outermost object writes this value in digits only. */
function isPlainInteger(text: string | undefined, key: string): boolean {
  const holders = new Set<unknown>();
  function note(this: unknown, at: string, value: unknown, context?: { readonly source?: string }): unknown {
    if (at === key && /^\d+$/.test(context?.source ?? "")) holders.add(this);
    return value;
  }
  return holders.has(JSON.parse(text ?? "{}", note));
}

/** Returns true when the outermost object has a duplicate key. `text` is valid JSON. */
function hasTwice(text: string): boolean {
  const seen = new Set<string>();
  let depth = 0;
  let isKey = false;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g)) {
    if (token === "{" || token === "[") {
      depth += 1;
      isKey = depth === 1;
    } else if (token === "}" || token === "]") depth -= 1;
    else if (token === ",") isKey = depth === 1;
    else if (token === ":") isKey = false;
    else if (isKey && depth === 1) {
      // Compare parsed keys: an escaped spelling is the same key.
      const key = JSON.parse(token) as string;
      if (seen.has(key)) return true;
      seen.add(key);
    }
  }
  return false;
}
