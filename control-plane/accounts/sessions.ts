// Browser sessions: a random cookie, stored as a keyed hash. A session ends 14 days after its last use and 90 days after its start.

import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Actor } from "../act.ts";
import { notFound } from "../service-error.ts";
import { type Caller, noLimits } from "./caller.ts";
import { reauthenticationRequired, signInExpired } from "./factor-errors.ts";
import type { SessionFactor, SessionRecord, SessionRow, SessionStore } from "./store.ts";

export interface Session {
  readonly caller: Caller;
  /** Must be sent with every write. */
  readonly csrfToken: string;
  /** Unix ms at which it ends if it is not used. */
  readonly endsAtMs: number;
  /** Session id as stored in the database. */
  readonly lookup: Buffer;
  /** Unix ms at which its owner proved who they are, with these factors; 0: unknown. */
  readonly authTimeMs: number;
  readonly factors: readonly SessionFactor[];
  /** The operator requires a second factor and the account has none: only adding one is allowed. */
  readonly mustEnrol: boolean;
}

export interface BegunSession extends Session {
  /** Value of the cookie; it is not stored. */
  readonly cookie: string;
}

export const sessionIdleMs = 14 * 86_400_000;
export const maxSessionMs = 90 * 86_400_000;
/** Maximum age of the sign-in for changes of keys, passwords, second factors or the account itself. */
export const recentSignInMs = 600_000;

/** `session`: undefined for a caller with a key, which has no sign-in. Throws reauthenticationRequired. */
export function checkRecentSignIn(session: Pick<Session, "authTimeMs"> | undefined, nowMs: number): void {
  if (session && nowMs - session.authTimeMs > recentSignInMs) throw reauthenticationRequired(recentSignInMs);
}

/** Id of a session in a list. */
export const sessionIdOf = ({ lookup }: Pick<Session, "lookup">): string => lookup.toString("hex").slice(0, 16);

export const sessionNotFound = () =>
  notFound("session_not_found", "Session not found. `GET /v1/me/sessions` lists those that have not ended.");

const maxAgentLength = 256;
/** Interval of recording use. */
const seenEveryMs = 3_600_000;
const cookieForm = /^[\w-]{43}$/;

export interface SessionOrigin {
  readonly userAgent?: string | undefined;
  /** Epoch in which the password or link was accepted. */
  readonly epoch?: number | undefined;
  /** Unix ms at which the person proved who they are; 0: unknown. Default: now. */
  readonly authTimeMs?: number | undefined;
}

export function createSessions(deps: {
  readonly store: SessionStore;
  readonly pepper: Buffer;
  readonly unixMs: () => number;
}) {
  const { store, unixMs } = deps;
  const key = Buffer.from(hkdfSync("sha256", deps.pepper, "", "stoker sessions", 32));
  const keyed = (purpose: string, text: string): Buffer =>
    createHmac("sha256", key).update(`${purpose}|${text}`).digest();
  const csrfOf = (cookie: string) => keyed("csrf", cookie).toString("base64url");

  const sessionOf = (
    cookie: string,
    row: Pick<SessionRow, "account" | "authTimeMs" | "factors" | "mustEnrol">,
    endsAtMs: number,
  ): Session => ({
    caller: sessionCaller(row.account, endsAtMs),
    csrfToken: csrfOf(cookie),
    endsAtMs,
    lookup: keyed("lookup", cookie),
    authTimeMs: row.authTimeMs,
    factors: row.factors,
    mustEnrol: row.mustEnrol,
  });

  return {
    /** Undefined: unknown or ended, or its account was deleted. */
    async find(cookie: string): Promise<Session | undefined> {
      if (!cookieForm.test(cookie)) return undefined;
      const lookup = keyed("lookup", cookie);
      const nowMs = unixMs();
      const row = await store.session(lookup);
      if (!row || row.endsAtMs <= nowMs) return undefined;
      if (nowMs - row.seenAtMs < seenEveryMs) return sessionOf(cookie, row, row.endsAtMs);
      const endsAtMs = Math.min(nowMs + sessionIdleMs, row.beganAtMs + maxSessionMs);
      await store.touchSession(lookup, nowMs, endsAtMs);
      return sessionOf(cookie, row, endsAtMs);
    },
    /**
     * Always uses a new cookie, because another person may know the browser's current one. Throws signInExpired when a second
     * factor was added, or the password changed, after the password was accepted.
     */
    async begin(actor: Actor, factors: readonly SessionFactor[], from: SessionOrigin = {}): Promise<BegunSession> {
      const cookie = randomBytes(32).toString("base64url");
      const beganAtMs = unixMs();
      const endsAtMs = beganAtMs + sessionIdleMs;
      const authTimeMs = Math.min(from.authTimeMs ?? beganAtMs, beganAtMs);
      const row = await store.openSession(actor, {
        lookup: keyed("lookup", cookie),
        beganAtMs,
        authTimeMs,
        endsAtMs,
        factors,
        epoch: from.epoch,
        userAgent: from.userAgent?.replaceAll("\0", "").slice(0, maxAgentLength) ?? null,
      });
      if (!row) throw signInExpired();
      return { ...sessionOf(cookie, { ...row, authTimeMs, factors }, endsAtMs), cookie };
    },
    /** `ip`: address of the person who signs out, for the audit log. */
    end: (cookie: string, ip?: string): Promise<void> => store.endSession(keyed("lookup", cookie), ip),
    /** The last used first. */
    list: (account: AccountId): Promise<readonly SessionRecord[]> => store.sessionsOf(account, unixMs()),
    /** Takes effect at once on every control plane. Throws sessionNotFound. */
    async revoke(actor: Actor, id: string): Promise<void> {
      if (!(await store.revokeSession(actor, id))) throw sessionNotFound();
    },
    hasCsrfToken(session: Session, token: string): boolean {
      const expected = Buffer.from(session.csrfToken);
      const given = Buffer.from(token);
      return given.length === expected.length && timingSafeEqual(given, expected);
    },
  };
}

export type Sessions = ReturnType<typeof createSessions>;

/** Caller of a browser session: its rights are those of a key with the role `admin`. */
export function sessionCaller(
  account: Pick<Caller, "account" | "displayName" | "email" | "isAdmin" | "suspendReason">,
  expiresAtMs: number | null,
): Caller {
  return {
    account: account.account,
    key: "" as KeyId,
    displayName: account.displayName,
    email: account.email,
    isAdmin: account.isAdmin,
    role: "admin",
    suspendReason: account.suspendReason,
    via: "session",
    models: null,
    expiresAtMs,
    spending: noLimits,
    rates: null,
    trustsUserHeaders: false,
  };
}
