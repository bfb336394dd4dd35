import type { AccountId, BudgetId, KeyId } from "../../proto/ids.ts";

/** Who is asking, once a credential was verified. Frozen and shared between requests of one credential. */
export interface Caller {
  readonly account: AccountId;
  /** Whose use it is: of a scoped token the key that signed it; empty for a browser session. */
  readonly key: KeyId;
  readonly displayName: string;
  readonly email: string;
  readonly isAdmin: boolean;
  /** Null, or the word of the contract's enum. */
  readonly suspendReason: string | null;
  readonly via: "key" | "jwt" | "session";
  /** The models a scoped token may use; null: any. */
  readonly models: ReadonlySet<string> | null;
  /** Unix ms: the end of a scoped token or session; null: none. */
  readonly expiresAtMs: number | null;
  readonly spending: Spending;
}

/** The limits a request of this caller is charged to, beside the account's own funds. billing/ turns them into budgets. */
export interface Spending {
  /** The account has a monthly limit (`POST /payment/config`). */
  readonly hasAccountLimit: boolean;
  /** The key has a monthly limit (`POST /payment/key-limits`). */
  readonly hasKeyLimit: boolean;
  /** Of a scoped token: its budget, by the SHA-256 of `header.payload`, and its limit in nano-USD; null limit: none. */
  readonly token: { readonly budget: BudgetId; readonly limit: bigint | null } | null;
}

export const noLimits: Spending = { hasAccountLimit: false, hasKeyLimit: false, token: null };

/**
 * Turns a presented secret into a Caller. Answers at once for a secret it has seen in the last minutes (no database call);
 * otherwise a promise. Both throw InvalidApiKey (accounts/errors.ts) for an unknown, revoked or malformed secret, with the
 * same message for every cause, and AccountStoreAway when the database cannot be asked.
 */
export interface Authenticator {
  /**
   * `ip`: the client's address, for keys that name the addresses they may come from. `connection`: what the secret came over;
   * most send one and the same secret time and again, which need not be hashed each time.
   */
  authenticate(secret: string, ip: string, connection?: object): Caller | Promise<Caller>;
}
