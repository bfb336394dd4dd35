import { type AccountId, randomId } from "../../proto/ids.ts";
import type { NanoUsd } from "../../proto/money.ts";
import type { Act } from "./act.ts";
import type { SuspensionStore } from "./suspension.ts";

export interface CreditWish {
  readonly account: AccountId;
  /** Negative: a correction. */
  readonly amount: NanoUsd;
  /** The caller's own name of this grant: the same again counts once. */
  readonly idempotencyKey: string | undefined;
  /** A correction may take more than is left. */
  readonly mayGoBelowZero: boolean;
}

/** billing/funds.ts, as far as it is used here. */
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
    by: { readonly actor: string; readonly ip: string },
  ): Promise<{ readonly funds: { readonly limit: bigint | null; readonly spent: bigint } }>;
}

/**
 * An operator's credit or correction, audited with its note. Where it leaves funds, the account is no longer suspended for
 * their lack. Throws what the port throws.
 */
export async function creditAccount(
  deps: {
    readonly funds: CreditPort;
    readonly suspensions: Pick<SuspensionStore, "lift">;
    /** Throws when there is no such account, or it was deleted. */
    readonly find: (account: AccountId) => Promise<unknown>;
  },
  { account, amount, idempotencyKey, mayGoBelowZero }: CreditWish,
  act: Act,
): Promise<void> {
  await deps.find(account);
  const { funds } = await deps.funds.grantCredit(
    {
      account,
      amount,
      kind: amount < 0n ? "correction" : "credit",
      note: act.note,
      reference: `operator/${act.by}/${idempotencyKey ?? randomId<"credit">(20)}`,
      mayGoBelowZero,
    },
    { actor: act.by, ip: act.ip },
  );
  if (funds.limit === null || funds.limit > funds.spent) await deps.suspensions.lift(account, "balance", act);
}
