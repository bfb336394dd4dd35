import type { AccountId, BudgetId, KeyId, MemberId, ProjectId } from "../../proto/ids.ts";
import type { KeyRole } from "./key-rules.ts";
import type { MemberRole } from "./member-role.ts";

/** `realtime`: of an ephemeral key, which only opens realtime sessions. */
export type CallerRole = KeyRole | "realtime";

/** A verified caller. Frozen and shared between requests of one credential. */
export interface Caller {
  readonly account: AccountId;
  /** Key that usage is attributed to: for a scoped token the signing key; empty for a browser session. */
  readonly key: KeyId;
  readonly displayName: string;
  readonly email: string;
  /** The operator, with a credential of the role `admin`. */
  readonly isAdmin: boolean;
  /** Role of its key; `admin` for a browser session. */
  readonly role: CallerRole;
  /** Null, or a value of the contract's enum. */
  readonly suspendReason: string | null;
  readonly via: "key" | "jwt" | "session";
  /** Models its key and token may use; null: any. */
  readonly models: ReadonlySet<string> | null;
  /** Unix ms: the end of the key, scoped token or session; null: none. */
  readonly expiresAtMs: number | null;
  readonly spending: Spending;
  /** Limits of its key, shared by all tokens signed with it; null: none. */
  readonly rates: KeyRates | null;
  /** The end user in `X-OpenWebUI-User-*` headers counts. */
  readonly trustsUserHeaders: boolean;
  /** Set in an organisation: the member whose session or key this is. Absent: the account itself, with every right of its key. */
  readonly member?: CallerMember;
  /** The operator who reads the account's records (`X-Stoker-Act-As`). */
  readonly operator?: AccountId;
  /** Its requests may have the service tier `priority`. Absent: no. */
  readonly mayPrioritize?: boolean;
}

export interface CallerMember {
  readonly id: MemberId;
  readonly role: MemberRole;
  /** Null: a service account. */
  readonly person: AccountId | null;
}

/** Null: no limit. */
export interface KeyRates {
  readonly requestsPerMinute: number | null;
  /** Input and output. */
  readonly tokensPerMinute: number | null;
}

/** Limits a request of this caller is charged to, besides the account's funds. billing/ turns them into budgets. */
export interface Spending {
  /** The account has a monthly limit (`POST /payment/config`). */
  readonly hasAccountLimit: boolean;
  /** The key has a monthly limit (`POST /payment/key-limits`). */
  readonly hasKeyLimit: boolean;
  /** Project of the key, whose budget is charged. Absent: none. */
  readonly project?: ProjectId;
  /** Budget of a scoped token, by the SHA-256 of `header.payload`, and its limit in nano-USD; null limit: none. */
  readonly token: { readonly budget: BudgetId; readonly limit: bigint | null } | null;
}

/** Models that both lists allow; null: any. */
export function bothModels(
  one: ReadonlySet<string> | null,
  other: readonly string[] | ReadonlySet<string> | null,
): ReadonlySet<string> | null {
  if (other === null) return one;
  return one === null ? new Set(other) : one.intersection(new Set(other));
}

/** The earlier end; null: none. */
export const earlier = (one: number | null, other: number | null): number | null =>
  one === null || other === null ? (one ?? other) : Math.min(one, other);

export const noLimits: Spending = { hasAccountLimit: false, hasKeyLimit: false, token: null };

/**
 * Turns a secret into a Caller. Returns synchronously for a recently verified secret, otherwise a promise. Throws
 * InvalidApiKey (accounts/errors.ts) for an unknown, revoked or malformed secret, with the same message for every cause, and
 * DatabaseUnavailable.
 */
export interface Authenticator {
  /**
   * `ip`: the client's address, for keys with allowed addresses. `connection`: the client's connection; repeated secrets on
   * it are not hashed again.
   */
  authenticate(secret: string, ip: string, connection?: object): Caller | Promise<Caller>;
}
