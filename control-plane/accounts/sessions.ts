// Browser sessions: a random cookie of which the database keeps a keyed hash. A session ends 14 days after its last use and
// 90 days after its beginning.
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { type Caller, noLimits } from "./caller.ts";
import type { AccountRow, Actor, SessionStore } from "./store.ts";

export interface Session {
  readonly caller: Caller;
  /** To be sent back with every write. */
  readonly csrfToken: string;
  /** Unix ms, if it is not used any more. */
  readonly endsAtMs: number;
  /** What the database knows it by. */
  readonly lookup: Buffer;
}

export interface BegunSession extends Session {
  /** The value of the cookie; nobody can read it again. */
  readonly cookie: string;
}

export interface Sessions {
  /** Undefined: unknown, ended, or of an account that is gone. */
  find(cookie: string): Promise<Session | undefined>;
  /** Always under a new cookie: one that a browser brought along could be known to somebody else. */
  begin(actor: Actor): Promise<BegunSession>;
  end(cookie: string): Promise<void>;
  hasCsrfToken(session: Session, token: string): boolean;
}

export const sessionIdleMs = 14 * 86_400_000;
export const sessionMostMs = 90 * 86_400_000;
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

  const sessionOf = (cookie: string, account: AccountRow, endsAtMs: number): Session => ({
    caller: callerOf(account, endsAtMs),
    csrfToken: csrfOf(cookie),
    endsAtMs,
    lookup: keyed("lookup", cookie),
  });

  return {
    async find(cookie) {
      if (!cookieForm.test(cookie)) return undefined;
      const lookup = keyed("lookup", cookie);
      const nowMs = unixMs();
      const row = await store.session(lookup);
      if (!row || row.endsAtMs <= nowMs) return undefined;
      if (nowMs - row.seenAtMs < seenEveryMs) return sessionOf(cookie, row.account, row.endsAtMs);
      const endsAtMs = Math.min(nowMs + sessionIdleMs, row.beganAtMs + sessionMostMs);
      await store.touchSession(lookup, nowMs, endsAtMs);
      return sessionOf(cookie, row.account, endsAtMs);
    },
    async begin(actor) {
      const cookie = randomBytes(32).toString("base64url");
      const nowMs = unixMs();
      const endsAtMs = nowMs + sessionIdleMs;
      const account = await store.openSession(actor, { lookup: keyed("lookup", cookie), beganAtMs: nowMs, endsAtMs });
      return { ...sessionOf(cookie, account, endsAtMs), cookie };
    },
    end: (cookie) => store.endSession(keyed("lookup", cookie)),
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
