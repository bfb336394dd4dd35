// Credits of accounts, by an operator or a payment. Every grant has a reference and counts once.

import type { AccountId } from "../../proto/ids.ts";
import { unreachable } from "../../proto/unreachable.ts";
import type { Act } from "../act.ts";
import { conflict, invalid, notFound } from "../service-error.ts";

export interface CreditGrant {
  readonly account: AccountId;
  /** Nano-USD; negative only for a correction. */
  readonly amount: bigint;
  readonly kind: "credit" | "topup" | "correction";
  /** For people. */
  readonly note: string;
  /** Idempotency key, unique in the installation. */
  readonly reference: string;
  /** A correction may exceed the remaining funds; nothing is admitted until they are positive again. */
  readonly mayGoBelowZero?: boolean;
}

export interface BudgetFunds {
  /** Null: no limit. */
  readonly limit: bigint | null;
  readonly spent: bigint;
  readonly leased: bigint;
}

export type CreditOutcome =
  | { readonly kind: "granted"; readonly before: BudgetFunds; readonly funds: BudgetFunds }
  /** The same grant was made before. */
  | { readonly kind: "repeated"; readonly funds: BudgetFunds }
  | { readonly kind: "unknown_account" }
  | { readonly kind: "reference_taken" }
  | { readonly kind: "below_zero"; readonly funds: BudgetFunds }
  | { readonly kind: "above_range"; readonly funds: BudgetFunds };

export interface FundsStore {
  /** With `by`, writes an audit entry in the same transaction. Announces `limit`. */
  grantCredit(grant: CreditGrant, by?: Act): Promise<CreditOutcome>;
}

export const accountWithoutFunds = () => notFound("account_not_found", "Account not found.", { param: "uid" });

export const creditRefused = (message: string) => invalid("invalid_credit", message);

export const creditReferenceTaken = () =>
  conflict(
    "credit_reference_taken",
    "This reference was already used for another grant. Use a new one, or repeat the first grant unchanged.",
  );

export interface Granted {
  /** False: the same grant was made before. */
  readonly isNew: boolean;
  readonly funds: BudgetFunds;
}

export interface Funds {
  /**
   * Raises what the account may spend; a correction may lower it. With `by`, writes an audit entry in the same transaction.
   * Throws accountWithoutFunds, creditRefused, creditReferenceTaken, DatabaseUnavailable.
   */
  grantCredit(grant: CreditGrant, by?: Act): Promise<Granted>;
}

/** Maximum of one grant, nano-USD. */
const maxNanoUsd = 10n ** 18n;

export function createFunds(deps: {
  readonly store: FundsStore;
  /** Called after a new grant: the account may be able to pay again. */
  readonly onGranted?: (account: AccountId) => Promise<void>;
}): Funds {
  return {
    async grantCredit(grant, by) {
      if (grant.amount === 0n) throw creditRefused("The amount must not be 0.");
      if (grant.amount < 0n && grant.kind !== "correction") {
        throw creditRefused("A negative amount requires a correction. Use kind `correction`, or a positive amount.");
      }
      if (grant.amount > maxNanoUsd || grant.amount < -maxNanoUsd) {
        throw creditRefused("The amount must be at most USD 1,000,000,000.");
      }
      const outcome = await deps.store.grantCredit(grant, by);
      switch (outcome.kind) {
        case "granted":
          await deps.onGranted?.(grant.account);
          return { isNew: true, funds: outcome.funds };
        case "repeated":
          return { isNew: false, funds: outcome.funds };
        case "unknown_account":
          throw accountWithoutFunds();
        case "reference_taken":
          throw creditReferenceTaken();
        case "below_zero":
          throw creditRefused(
            "The account has spent more than this correction would leave. Use a smaller amount, or allow it with `may_go_below_zero` (`--below-zero` on the command line).",
          );
        case "above_range":
          throw creditRefused("The account's funds would exceed USD 9,000,000,000. Use a smaller amount.");
        default:
          return unreachable(outcome);
      }
    },
  };
}
