import type { AccountId, KeyId } from "../../proto/ids.ts";

/** Who is asking, once a credential was verified. Frozen and shared between requests of one key. */
export interface Caller {
  readonly account: AccountId;
  readonly key: KeyId;
  readonly displayName: string;
  readonly email: string;
  readonly isAdmin: boolean;
  /** Null, or the word of the contract's enum. */
  readonly suspendReason: string | null;
}

/**
 * Turns a presented secret into a Caller. Answers at once for a secret it has seen in the last minutes (no database call);
 * otherwise a promise. Both throw InvalidApiKey (accounts/errors.ts) for an unknown, revoked or malformed secret, with the
 * same message for every cause, and AccountStoreAway when the database cannot be asked.
 */
export interface Authenticator {
  authenticate(secret: string): Caller | Promise<Caller>;
}
