// The format of a scoped token, `jwt:<header>.<payload>.<signature>`, read in a fixed order: what is not signed is not
// believed, and what can be told without a key is told first. HS256 alone; header fields that name a key are ignored.
import { createHmac, hash, timingSafeEqual } from "node:crypto";
import type { AccountId, BudgetId } from "../../proto/ids.ts";
import { fromUsd, type NanoUsd } from "../../proto/money.ts";
import { hasTwice } from "./json-keys.ts";

export const jwtPrefix = "jwt:";
/** A token is never longer, its prefix included. */
export const mostJwtBytes = 8 * 1024;
/** A token lives a year at most; a minute more for clocks that differ. */
export const longestLifeS = 365 * 24 * 60 * 60;
const clockLeewayS = 60;
const mostNameBytes = 128;
/** Beyond it a limit is no limit: bigint columns end at 9.2e18 nano-USD. */
const mostLimitUsd = 9_000_000_000;

const base64url = /^[A-Za-z0-9_-]+$/;
/** Either alphabet, padded or not. */
const base64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** What an unverified token says of itself. */
export interface UnverifiedJwt {
  readonly account: AccountId;
  readonly keyName: string;
  /** `header.payload`, as received. */
  readonly signed: string;
  readonly payload: string;
  readonly signature: Buffer;
}

export interface Claims {
  /** Unix seconds. */
  readonly expiresAtS: number;
  /** Null: any model. */
  readonly models: readonly string[] | null;
  /** Null: no limit of its own. */
  readonly limit: NanoUsd | null;
}

/** Undefined when it cannot be one of ours, whatever key it is signed with. */
export function readJwt(token: string): UnverifiedJwt | undefined {
  if (token.length > mostJwtBytes || !token.startsWith(jwtPrefix)) return undefined;
  const parts = token.slice(jwtPrefix.length).split(".");
  if (parts.length !== 3 || !parts.every((part) => base64url.test(part))) return undefined;
  const [header, payload, signature] = parts as [string, string, string];
  const fields = jsonObject(textOf(header));
  if (fields?.["alg"] !== "HS256" || fields["typ"] !== "JWT" || "crit" in fields) return undefined;
  const signer = readKid(fields["kid"]);
  if (!signer) return undefined;
  return { ...signer, signed: `${header}.${payload}`, payload, signature: Buffer.from(signature, "base64url") };
}

/** `<user_id>:<base64(api_key_name)>`: a user id may hold colons itself. */
function readKid(kid: unknown): { readonly account: AccountId; readonly keyName: string } | undefined {
  if (typeof kid !== "string") return undefined;
  const colon = kid.lastIndexOf(":");
  const encoded = kid.slice(colon + 1);
  if (colon < 1 || !base64.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.length === 0 || bytes.length > mostNameBytes) return undefined;
  const keyName = bytes.toString();
  // Bytes that are no UTF-8 would otherwise name whichever key has the replacement character in its name.
  if (!Buffer.from(keyName).equals(bytes)) return undefined;
  return { account: kid.slice(0, colon) as AccountId, keyName };
}

/** In the time that a comparison takes, whatever differs. */
export function isSignedWith(token: Pick<UnverifiedJwt, "signed" | "signature">, secret: string): boolean {
  const expected = createHmac("sha256", secret).update(token.signed).digest();
  return token.signature.length === expected.length && timingSafeEqual(token.signature, expected);
}

/** Only of a token whose signature was verified. Undefined when a claim is missing or not as the format has it. */
export function readClaims(token: UnverifiedJwt): Claims | undefined {
  const text = textOf(token.payload);
  const claims = jsonObject(text);
  if (!claims || claims["sub"] !== token.account) return undefined;
  const expiresAtS = claims["exp"];
  // 1.7e9 and 1700000000.0 are numbers of seconds for some readers and not for others.
  if (typeof expiresAtS !== "number" || !Number.isSafeInteger(expiresAtS) || !isPlainInteger(text, "exp"))
    return undefined;
  const models = readModels(claims["models"], claims["model"]);
  const limit = readLimit(claims["spending_limit"]);
  return models === undefined || limit === undefined ? undefined : { expiresAtS, models, limit };
}

/** Whether a token that expires then is good at `unixMs`. */
export function isCurrent({ expiresAtS }: Claims, unixMs: number): boolean {
  return expiresAtS * 1000 > unixMs && expiresAtS <= unixMs / 1000 + longestLifeS + clockLeewayS;
}

/** Of the signed bytes: the last character of a signature has spare bits, so that one token has four spellings. */
export const budgetOf = (token: Pick<UnverifiedJwt, "signed">): BudgetId =>
  `jwt/${hash("sha256", token.signed, "base64url")}` as BudgetId;

export function signJwt(
  signer: { readonly account: AccountId; readonly keyName: string; readonly secret: string },
  claims: Readonly<Record<string, unknown>>,
): string {
  const kid = `${signer.account}:${Buffer.from(signer.keyName).toString("base64")}`;
  const encoded = [
    { alg: "HS256", typ: "JWT", kid },
    { sub: signer.account, ...claims },
  ].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
  const signed = encoded.join(".");
  return `${jwtPrefix}${signed}.${createHmac("sha256", signer.secret).update(signed).digest("base64url")}`;
}

/** Null when unrestricted. Given both ways, a model must stand in both. */
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
  return fromUsd(Math.min(usd, mostLimitUsd));
}

/** Undefined for anything but an object, and for one that says something twice: readers differ in which they believe. */
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

function textOf(part: string): string | undefined {
  try {
    return utf8.decode(Buffer.from(part, "base64url"));
  } catch {
    return undefined;
  }
}

/** Whether the outermost object spells this value in digits alone. */
function isPlainInteger(text: string | undefined, key: string): boolean {
  const holders = new Set<unknown>();
  function note(this: unknown, at: string, value: unknown, context?: { readonly source?: string }): unknown {
    if (at === key && /^\d+$/.test(context?.source ?? "")) holders.add(this);
    return value;
  }
  return holders.has(JSON.parse(text ?? "{}", note));
}
