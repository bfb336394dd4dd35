// Money given to an account, by an operator or a payment. Every grant has a reference and counts once.
import type { AccountId } from "../../proto/ids.ts";
import { unreachable } from "../../proto/unreachable.ts";
import { ServiceError } from "../service-error.ts";
import type { BudgetFunds, CreditGrant, FundsStore } from "./store.ts";

export class AccountWithoutFunds extends ServiceError {
  readonly code = "account_not_found";
  constructor() {
    super("There is no such account.", { param: "uid" });
  }
}

export class CreditRefused extends ServiceError {
  readonly code = "invalid_credit";
}

export class CreditReferenceTaken extends ServiceError {
  readonly code = "credit_reference_taken";
  constructor() {
    super("This reference was used for another grant. Choose a new one, or repeat the first grant unchanged.");
  }
}

export interface Granted {
  /** False: the same grant was made before, and counts once. */
  readonly isNew: boolean;
  readonly funds: BudgetFunds;
}

export interface Funds {
  /**
   * Raises what the account may spend; a correction may lower it. `by` writes an audit entry in the same transaction. Throws
   * AccountWithoutFunds, CreditRefused, CreditReferenceTaken, and what the store throws when the database is away.
   */
  grantCredit(grant: CreditGrant, by?: { readonly actor: string; readonly ip: string }): Promise<Granted>;
}

/** Above it a sum of grants could leave the range of the database's integers. */
const mostNanoUsd = 10n ** 18n;

export function createFunds(deps: {
  readonly store: FundsStore;
  /** After a grant that is new: the account may be able to pay again. */
  readonly onGranted?: (account: AccountId) => Promise<void>;
}): Funds {
  return {
    async grantCredit(grant, by) {
      if (grant.amount === 0n) throw new CreditRefused("The amount is zero. Give an amount other than 0.");
      if (grant.amount < 0n && grant.kind !== "correction") {
        throw new CreditRefused("A negative amount is a correction. Make it one, or give a positive amount.");
      }
      if (grant.amount > mostNanoUsd || grant.amount < -mostNanoUsd) {
        throw new CreditRefused("The amount is above USD 1,000,000,000. Give a smaller one.");
      }
      const outcome = await deps.store.grantCredit(grant, by);
      switch (outcome.kind) {
        case "granted":
          await deps.onGranted?.(grant.account);
          return { isNew: true, funds: outcome.funds };
        case "repeated":
          return { isNew: false, funds: outcome.funds };
        case "unknown_account":
          throw new AccountWithoutFunds();
        case "reference_taken":
          throw new CreditReferenceTaken();
        case "below_zero":
          throw new CreditRefused(
            "The account has spent more than this correction would leave. Take less, or say that it may go below zero: `may_go_below_zero`, `--below-zero` on the command line.",
          );
        default:
          return unreachable(outcome);
      }
    },
  };
}
