// Browser sessions: a random cookie of which the database keeps a keyed hash. A session ends 14 days after its last use and
// 90 days after its beginning.
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { type Caller, noLimits } from "./caller.ts";
import { reauthenticationRequired, signInExpired } from "./factor-errors.ts";
import type { AccountRow, Actor, SessionFactor, SessionRow, SessionStore } from "./store.ts";

export interface Session {
  readonly caller: Caller;
  /** To be sent back with every write. */
  readonly csrfToken: string;
  /** Unix ms, if it is not used any more. */
  readonly endsAtMs: number;
  /** Session id as stored in the database. */
  readonly lookup: Buffer;
  /** Unix ms at which its owner signed in, with these. */
  readonly authTimeMs: number;
  readonly factors: readonly SessionFactor[];
  /** The operator requires a second factor, and the account has none: all that may be done is to set one up. */
  readonly mustEnrol: boolean;
}

export interface BegunSession extends Session {
  /** The value of the cookie; nobody can read it again. */
  readonly cookie: string;
}

export interface Sessions {
  /** Undefined: unknown, ended, or of an account that is gone. */
  find(cookie: string): Promise<Session | undefined>;
  /**
   * Always uses a new cookie: another person may know the one that the browser already has. Throws signInExpired when a second
   * factor was added after the password was accepted.
   */
  begin(actor: Actor, factors: readonly SessionFactor[]): Promise<BegunSession>;
  /** `ip`: of who signs out, for the audit log. */
  end(cookie: string, ip?: string): Promise<void>;
  hasCsrfToken(session: Session, token: string): boolean;
}

export const sessionIdleMs = 14 * 86_400_000;
export const sessionMostMs = 90 * 86_400_000;
/** How old the sign-in of a session may be, where keys, passwords, second factors or the account itself change. */
export const recentSignInMs = 600_000;

/** `session`: undefined for a caller with a key, which has no sign-in. Throws reauthenticationRequired. */
export function checkRecentSignIn(session: Pick<Session, "authTimeMs"> | undefined, nowMs: number): void {
  if (session && nowMs - session.authTimeMs > recentSignInMs) throw reauthenticationRequired(recentSignInMs);
}

/** Use is written down this often at most. */
const seenEveryMs = 3_600_000;
const cookieForm = /^[\w-]{43}$/;

export function createSessions(deps: {
  readonly store: SessionStore;
  readonly pepper: Buffer;
  readonly unixMs: () => number;
}): Sessions {
  const { store, unixMs } = deps;
  const key = Buffer.from(hkdfSync("sha256", deps.pepper, "", "stoker sessions", 32));
  const keyed = (purpose: string, text: string): Buffer =>
    createHmac("sha256", key).update(`${purpose}|${text}`).digest();
  const csrfOf = (cookie: string) => keyed("csrf", cookie).toString("base64url");

  const sessionOf = (
    cookie: string,
    row: Pick<SessionRow, "account" | "beganAtMs" | "factors" | "mustEnrol">,
    endsAtMs: number,
  ): Session => ({
    caller: callerOf(row.account, endsAtMs),
    csrfToken: csrfOf(cookie),
    endsAtMs,
    lookup: keyed("lookup", cookie),
    authTimeMs: row.beganAtMs,
    factors: row.factors,
    mustEnrol: row.mustEnrol,
  });

  return {
    async find(cookie) {
      if (!cookieForm.test(cookie)) return undefined;
      const lookup = keyed("lookup", cookie);
      const nowMs = unixMs();
      const row = await store.session(lookup);
      if (!row || row.endsAtMs <= nowMs) return undefined;
      if (nowMs - row.seenAtMs < seenEveryMs) return sessionOf(cookie, row, row.endsAtMs);
      const endsAtMs = Math.min(nowMs + sessionIdleMs, row.beganAtMs + sessionMostMs);
      await store.touchSession(lookup, nowMs, endsAtMs);
      return sessionOf(cookie, row, endsAtMs);
    },
    async begin(actor, factors) {
      const cookie = randomBytes(32).toString("base64url");
      const beganAtMs = unixMs();
      const endsAtMs = beganAtMs + sessionIdleMs;
      const row = await store.openSession(actor, { lookup: keyed("lookup", cookie), beganAtMs, endsAtMs, factors });
      if (!row) throw signInExpired();
      return { ...sessionOf(cookie, { ...row, beganAtMs, factors }, endsAtMs), cookie };
    },
    end: (cookie, ip) => store.endSession(keyed("lookup", cookie), ip),
    hasCsrfToken(session, token) {
      const expected = Buffer.from(session.csrfToken);
      const given = Buffer.from(token);
      return given.length === expected.length && timingSafeEqual(given, expected);
    },
  };
}

function callerOf(account: AccountRow, expiresAtMs: number): Caller {
  return {
    account: account.account as AccountId,
    key: "" as KeyId,
    displayName: account.displayName,
    email: account.email,
    isAdmin: account.isAdmin,
    suspendReason: account.suspendReason,
    via: "session",
    models: null,
    expiresAtMs,
    spending: noLimits,
  };
}
