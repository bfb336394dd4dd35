// What the operator sees of accounts and may change on them. Funds are of the account's budget; suspension and credit have
// their own verbs.
import type { AccountId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { SuspendReason } from "../../proto/suspend-reason.ts";
import type { Act } from "./act.ts";
import { AccountDeleted, AccountNotFound, BadCursor, LastAdmin } from "./errors.ts";
import type { SuspensionRecord } from "./suspension.ts";

export interface AccountSummary {
  readonly account: AccountId;
  readonly email: string;
  readonly displayName: string;
  readonly isAdmin: boolean;
  readonly isTeamAccount: boolean;
  /** The gravest of its suspensions. */
  readonly suspendReason: SuspendReason | null;
  readonly createdAtMs: number;
  /** Credits less what was spent; null: no limit. */
  readonly funds: NanoUsd | null;
  /** All it ever spent. */
  readonly spent: NanoUsd;
}

/** Of a deleted one what records need: its id, in place of address and name too, and its money. */
export interface AccountDetail extends AccountSummary {
  /** Null: it is not deleted. */
  readonly deletedAtMs: number | null;
  /** Sum of its credits; null: no limit. */
  readonly credited: NanoUsd | null;
  /** Live ones. */
  readonly keys: number;
  /** Those not deleted. */
  readonly deployments: number;
  readonly suspensions: readonly SuspensionRecord[];
}

export interface AccountChange {
  readonly isAdmin?: boolean;
  /** False also frees the name of its team. */
  readonly isTeamAccount?: boolean;
}

export interface AdminAccountStore {
  /** The oldest living operator's account. */
  firstAdmin(): Promise<AccountId | undefined>;
  /** Newest first, those after `after`; `query` is part of an e-mail address or display name, or of a uid. */
  list(query: string, after: AccountId | undefined, limit: number): Promise<readonly AccountSummary[]>;
  /** Also one that was deleted; without its suspensions. Undefined when there was none. */
  get(account: AccountId): Promise<Omit<AccountDetail, "suspensions"> | undefined>;
  /** Writes and audits what differs. `last_admin`: nobody else could administer. */
  change(account: AccountId, change: AccountChange, act: Act): Promise<"done" | "gone" | "last_admin">;
}

export interface AccountPage {
  readonly accounts: readonly AccountSummary[];
  /** Asks for the page after this one; null on the last. */
  readonly nextCursor: string | null;
}

export interface AdminAccounts {
  /** Throws BadCursor. */
  list(query: string, cursor: string | undefined, limit: number): Promise<AccountPage>;
  /** Also one that was deleted. Throws AccountNotFound. */
  get(account: AccountId): Promise<AccountDetail>;
  /** Throws AccountNotFound, AccountDeleted. */
  living(account: AccountId): Promise<AccountDetail>;
  /** Throws AccountNotFound, AccountDeleted, LastAdmin. */
  change(account: AccountId, change: AccountChange, act: Act): Promise<AccountDetail>;
}

export function createAdminAccounts(
  store: AdminAccountStore & { suspensions(account: AccountId): Promise<readonly SuspensionRecord[]> },
): AdminAccounts {
  async function get(account: AccountId): Promise<AccountDetail> {
    const found = await store.get(account);
    if (!found) throw new AccountNotFound();
    return { ...found, suspensions: await store.suspensions(account) };
  }
  async function living(account: AccountId): Promise<AccountDetail> {
    const found = await get(account);
    if (found.deletedAtMs !== null) throw new AccountDeleted(account, found.deletedAtMs);
    return found;
  }
  return {
    get,
    living,
    async list(query, cursor, limit) {
      if (cursor !== undefined && !/^u:[\w]{1,32}$/.test(cursor)) throw new BadCursor();
      const found = await store.list(query, cursor as AccountId | undefined, limit + 1);
      const accounts = found.slice(0, limit);
      return { accounts, nextCursor: found.length > limit ? (accounts.at(-1)?.account ?? null) : null };
    },
    async change(account, change, act) {
      await living(account);
      const outcome = await store.change(account, change, act);
      if (outcome === "last_admin") throw new LastAdmin();
      return living(account);
    },
  };
}
