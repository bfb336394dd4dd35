import type { AccountId, BudgetId, KeyId } from "../../proto/ids.ts";

/** A verified caller. Frozen and shared between requests of one credential. */
export interface Caller {
  readonly account: AccountId;
  /** Key that usage is attributed to: for a scoped token the signing key; empty for a browser session. */
  readonly key: KeyId;
  readonly displayName: string;
  readonly email: string;
  readonly isAdmin: boolean;
  /** Null, or a value of the contract's enum. */
  readonly suspendReason: string | null;
  readonly via: "key" | "jwt" | "session";
  /** Models a scoped token may use; null: any. */
  readonly models: ReadonlySet<string> | null;
  /** Unix ms: the end of a scoped token or session; null: none. */
  readonly expiresAtMs: number | null;
  readonly spending: Spending;
}

/** Limits a request of this caller is charged to, besides the account's funds. billing/ turns them into budgets. */
export interface Spending {
  /** The account has a monthly limit (`POST /payment/config`). */
  readonly hasAccountLimit: boolean;
  /** The key has a monthly limit (`POST /payment/key-limits`). */
  readonly hasKeyLimit: boolean;
  /** Budget of a scoped token, by the SHA-256 of `header.payload`, and its limit in nano-USD; null limit: none. */
  readonly token: { readonly budget: BudgetId; readonly limit: bigint | null } | null;
}

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
