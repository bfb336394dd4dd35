// Accounts as the operator sees and changes them.
import { type AccountId, type KeyId, randomId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { SuspendReason } from "../../proto/suspend-reason.ts";
import type { Act } from "../act.ts";
import { checkCursor, pageOf } from "../page.ts";
import { type Caller, noLimits } from "./caller.ts";
import { accountDeleted, accountNotFound, lastAdmin, notSuspended } from "./errors.ts";

export interface AccountSummary {
  readonly account: AccountId;
  readonly email: string;
  readonly displayName: string;
  readonly isAdmin: boolean;
  readonly isTeamAccount: boolean;
  /** Its requests may have the service tier `priority`. */
  readonly mayPrioritize: boolean;
  /** The gravest of its suspensions. */
  readonly suspendReason: SuspendReason | null;
  readonly createdAtMs: number;
  /** Credits less what was spent; null: no limit. */
  readonly funds: NanoUsd | null;
  /** All it ever spent. */
  readonly spent: NanoUsd;
}

/** Remaining record of a deleted account: its id, in place of address and name too, and its money. */
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
  readonly mayPrioritize?: boolean;
}

export interface AccountFilter {
  /** Part of an e-mail address or display name, or of a uid; empty: any. */
  readonly query: string;
  /** Accounts with this reason among their suspensions; `any`: suspended ones. */
  readonly suspended?: SuspendReason | "any";
}

/** Name of an account in lists. Both fields hold the uid of a deleted account. */
export type AccountName = Pick<AccountSummary, "email" | "displayName">;

export interface AdminAccountStore {
  /** The oldest living operator's account. */
  firstAdmin(): Promise<AccountId | undefined>;
  /** Newest first, those after `after`. */
  list(filter: AccountFilter, after: AccountId | undefined, limit: number): Promise<readonly AccountSummary[]>;
  /** Also one that was deleted; without its suspensions. Undefined when there was none. */
  get(account: AccountId): Promise<Omit<AccountDetail, "suspensions"> | undefined>;
  /** Returns the names of the accounts, deleted ones included. */
  names(accounts: readonly AccountId[]): Promise<ReadonlyMap<AccountId, AccountName>>;
  /** Writes and audits what differs. `last_admin`: no other account is an administrator. */
  change(account: AccountId, change: AccountChange, act: Act): Promise<"done" | "gone" | "last_admin">;
  /** Audits that an operator reads the account's records, or that a view in the console begins or ends. */
  noteView(account: AccountId, act: Act, action: ViewAction): Promise<void>;
}

export type ViewAction = "account.view" | "account.view_begin" | "account.view_end";

/** Views of one account by one operator within this time are one entry of the audit log. */
const viewMs = 15 * 60_000;
const maxViews = 1_000;

/** `gone`: there is no such account. `unchanged`: it was so already, and nothing was written. */
export type SuspendOutcome = "done" | "unchanged" | "gone";

export interface SuspensionRecord {
  readonly reason: SuspendReason;
  readonly sinceMs: number;
  /** An account's id, or `system`. */
  readonly by: string;
  readonly note: string;
}

/**
 * Reasons why an account may not spend. Several may hold at once; the account shows the gravest, and each is lifted by the act
 * that removes its cause. Each write is one transaction: the reason, the one the account shows, the audit row, and the
 * announcement, on which every replica refuses the account and calls its slices back in under two seconds.
 */
export interface SuspensionStore {
  suspend(account: AccountId, reason: SuspendReason, act: Act): Promise<SuspendOutcome>;
  lift(account: AccountId, reason: SuspendReason, act: Act): Promise<SuspendOutcome>;
  /** Lifts every reason that holds. */
  liftAll(account: AccountId, act: Act): Promise<SuspendOutcome>;
  suspensions(account: AccountId): Promise<readonly SuspensionRecord[]>;
}

export interface AccountPage {
  readonly accounts: readonly AccountSummary[];
  /** Asks for the page after this one; null on the last. */
  readonly nextCursor: string | null;
}

export interface CreditParams {
  readonly account: AccountId;
  /** Negative: a correction. */
  readonly amount: NanoUsd;
  /** The caller's own name of this grant: the same again counts once. */
  readonly idempotencyKey: string | undefined;
  /** A correction may take more than is left. */
  readonly mayGoBelowZero: boolean;
}

/** Implemented by billing/funds.ts. */
export interface CreditPort {
  grantCredit(
    grant: {
      readonly account: AccountId;
      readonly amount: bigint;
      readonly kind: "credit" | "correction";
      readonly note: string;
      readonly reference: string;
      readonly mayGoBelowZero: boolean;
    },
    by: Act,
  ): Promise<{ readonly funds: { readonly limit: bigint | null; readonly spent: bigint } }>;
}

/** All throw accountNotFound for an unknown account; those that change one throw accountDeleted for a deleted one. */
export function createOperator(deps: {
  readonly store: AdminAccountStore;
  readonly suspensions: SuspensionStore;
  readonly funds: CreditPort;
}) {
  const { store, suspensions, funds } = deps;
  async function account(id: AccountId): Promise<AccountDetail> {
    const found = await store.get(id);
    if (!found) throw accountNotFound();
    return { ...found, suspensions: await suspensions.suspensions(id) };
  }
  async function living(id: AccountId): Promise<AccountDetail> {
    const found = await account(id);
    if (found.deletedAtMs !== null) throw accountDeleted(id, found.deletedAtMs);
    return found;
  }
  /** Unix ms by operator and account; the oldest first. */
  const views = new Map<string, number>();
  async function noteView(id: AccountId, act: Act): Promise<void> {
    const key = `${act.by} ${id}`;
    if ((views.get(key) ?? 0) > Date.now() - viewMs) return;
    await store.noteView(id, act, "account.view");
    views.delete(key);
    views.set(key, Date.now());
    const [oldest] = views.keys();
    if (views.size > maxViews && oldest !== undefined) views.delete(oldest);
  }
  return {
    /** Includes deleted accounts. */
    account,
    /** A caller that reads the account's records as its owner does, for the operator `act.by`; audited. */
    async actAs(id: AccountId, act: Act): Promise<Caller> {
      const { displayName, email, suspendReason, mayPrioritize } = await living(id);
      await noteView(id, act);
      return {
        account: id,
        key: "" as KeyId,
        displayName,
        email,
        isAdmin: false,
        role: "read",
        suspendReason,
        via: "session",
        models: null,
        expiresAtMs: null,
        spending: noLimits,
        rates: null,
        trustsUserHeaders: false,
        mayPrioritize,
        operator: act.by as AccountId,
      };
    },
    /** Audits that an operator reads the account's records: once in 15 minutes. */
    noteView,
    /** Audits each begin and end of a view in the console. Throws accountNotFound. */
    async noteViewState(id: AccountId, state: "begin" | "end", act: Act): Promise<void> {
      await account(id);
      await store.noteView(id, act, `account.view_${state}`);
    },
    /** Returns the names of the accounts, deleted ones included. */
    async names(accounts: Iterable<AccountId>): Promise<ReadonlyMap<AccountId, AccountName>> {
      const distinct = [...new Set(accounts)];
      return distinct.length === 0 ? new Map() : store.names(distinct);
    },
    /** Newest first. Throws badCursor. */
    async accounts(filter: AccountFilter, cursor: string | undefined, limit: number): Promise<AccountPage> {
      checkCursor(cursor, /^u:[\w]{1,32}$/);
      const found = await store.list(filter, cursor as AccountId | undefined, limit + 1);
      const { page, nextCursor } = pageOf(found, limit, ({ account }) => account);
      return { accounts: page, nextCursor };
    },
    /** Throws lastAdmin. */
    async changeAccount(id: AccountId, change: AccountChange, act: Act): Promise<AccountDetail> {
      await living(id);
      const outcome = await store.change(id, change, act);
      if (outcome === "last_admin") throw lastAdmin();
      return living(id);
    },
    /**
     * A credit or correction, audited with its note. If it leaves funds, the account is no longer suspended for lack of them.
     * Throws accountWithoutFunds, creditRefused, creditReferenceTaken.
     */
    async credit({ account: id, amount, idempotencyKey, mayGoBelowZero }: CreditParams, act: Act): Promise<void> {
      await living(id);
      const { funds: after } = await funds.grantCredit(
        {
          account: id,
          amount,
          kind: amount < 0n ? "correction" : "credit",
          note: act.note,
          reference: `operator/${act.by}/${idempotencyKey ?? randomId<"credit">(20)}`,
          mayGoBelowZero,
        },
        act,
      );
      if (after.limit === null || after.limit > after.spent) await suspensions.lift(id, "balance", act);
    },
    /** A reason that holds already stays as it was. */
    async suspend(id: AccountId, reason: SuspendReason, act: Act): Promise<void> {
      await living(id);
      if ((await suspensions.suspend(id, reason, act)) === "gone") throw accountNotFound();
    },
    /** Without a reason: all that hold. Throws notSuspended. */
    async lift(id: AccountId, reason: SuspendReason | undefined, act: Act): Promise<void> {
      await living(id);
      const outcome = await (reason === undefined ? suspensions.liftAll(id, act) : suspensions.lift(id, reason, act));
      if (outcome === "gone") throw accountNotFound();
      if (outcome === "unchanged") throw notSuspended(reason);
    },
  };
}

export type Operator = ReturnType<typeof createOperator>;
