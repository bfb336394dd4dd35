import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import { type Authenticator, type Caller, noLimits } from "../../accounts/caller.ts";
import { InvalidApiKey } from "../../accounts/errors.ts";
import type { AddressLimits } from "../connections/address-limits.ts";

const bearer = /^bearer +(\S+) *$/i;

export interface Entrance {
  readonly authenticator: Authenticator;
  readonly addresses: AddressLimits;
}

/**
 * Returns the caller of these headers. Throws or rejects with InvalidApiKey for every cause, and with tooManyRequests when the
 * address has sent too many requests without a valid credential.
 */
export function authenticate(
  { authenticator, addresses }: Entrance,
  headers: IncomingHttpHeaders,
  ip: string,
  socket: Socket,
): Caller | Promise<Caller> {
  const known = (caller: Caller): Caller => {
    addresses.authenticated(socket);
    return caller;
  };
  const refused = (error: unknown): never => {
    if (error instanceof InvalidApiKey) addresses.take(ip);
    throw error;
  };
  try {
    const caller = callerOf(authenticator, headers, ip, socket);
    return caller instanceof Promise ? caller.then(known, refused) : known(caller);
  } catch (error) {
    return refused(error);
  }
}

function callerOf(
  authenticator: Authenticator,
  headers: IncomingHttpHeaders,
  ip: string,
  connection: object,
): Caller | Promise<Caller> {
  const { authorization } = headers;
  let secret: string | undefined;
  if (authorization !== undefined) {
    // The common spelling without a regular expression.
    secret = authorization.startsWith("Bearer ") ? authorization.slice(7).trim() : bearer.exec(authorization)?.[1];
    if (!secret) throw new InvalidApiKey();
  }
  const xi = headers["xi-api-key"];
  const x = headers["x-api-key"];
  if (xi !== undefined) secret = same(secret, xi);
  if (x !== undefined) secret = same(secret, x);
  if (!secret) throw new InvalidApiKey();
  return authenticator.authenticate(secret, ip, connection);
}

/** Several carriers must hold the same key. */
function same(secret: string | undefined, carrier: string | string[]): string | undefined {
  const value = String(carrier);
  // Some clients send an empty header for none.
  if (value === "") return secret;
  if (secret !== undefined && secret !== value) throw new InvalidApiKey();
  return value;
}

/** Caller of public endpoints. */
export const nobody: Caller = Object.freeze({
  account: "" as Caller["account"],
  key: "" as Caller["key"],
  displayName: "",
  email: "",
  isAdmin: false,
  role: "admin",
  suspendReason: null,
  via: "key",
  models: null,
  expiresAtMs: null,
  spending: noLimits,
  rates: null,
  trustsUserHeaders: false,
});
