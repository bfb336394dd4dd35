// Payments, charges, good standing of accounts, invoices and limits, with their stores.
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { createCharges } from "../billing/charges.ts";
import { createChecklists } from "../billing/checklist.ts";
import { createFunds } from "../billing/funds.ts";
import { createInvoiceQueries } from "../billing/invoice-queries.ts";
import { createJudge } from "../billing/judge.ts";
import { createLimits } from "../billing/limits.ts";
import { createMonthClosing } from "../billing/months.ts";
import { createPaying } from "../billing/paying.ts";
import { nanoPerCent, type PaymentProvider } from "../billing/payments.ts";
import type { ControlPlaneConfig } from "../config.ts";
import { createManualPayments } from "../payments/manual.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createBillingStore } from "../store/money/billing-store.ts";
import { createChargeStore } from "../store/money/charge-store.ts";
import { createFundsStore } from "../store/money/funds-store.ts";
import { createInvoiceStore } from "../store/money/invoice-store.ts";
import { createLimitStore } from "../store/money/limit-store.ts";
import { createMoneyOverviewStore } from "../store/money/money-overview-store.ts";
import { createStandingStore } from "../store/money/standing-store.ts";

/** Stripe if its keys are configured; otherwise the operator collects the money. */
export async function paymentProvider(config: Pick<ControlPlaneConfig, "stripe">): Promise<PaymentProvider> {
  if (!config.stripe) return createManualPayments();
  // Loads 200 modules, a tenth of the time to start.
  const { createStripePayments } = await import("../payments/stripe.ts");
  return createStripePayments(config.stripe);
}

export type Billing = ReturnType<typeof createBilling>;

export function createBilling(deps: {
  readonly db: OpenDatabase["db"];
  readonly provider: PaymentProvider;
  /** Signs the links of invoices. */
  readonly invoiceLinkKey: Buffer;
  readonly log: Logger;
  readonly clock?: Parameters<typeof createJudge>[0]["clock"];
}) {
  const { db, provider, log } = deps;
  const clock = deps.clock ? { clock: deps.clock } : {};
  const leastDue = BigInt(provider.leastCents) * nanoPerCent;
  const store = createBillingStore(db);
  const invoiceStore = createInvoiceStore(db);
  // The account can pay again or has paid its debt: its status is updated before the reply to the grant.
  const onGranted = async (account: AccountId) => {
    try {
      await store.clearFailures(account);
      await judge.judge(account);
    } catch (error) {
      log.warn({ err: error, account }, "account status update after credit failed; will retry");
    }
  };
  const funds = createFunds({ store: createFundsStore(db), onGranted });
  const onFailed = (account: AccountId) => judge.judge(account);
  const charges = createCharges({
    ...{ store: createChargeStore(db), provider, funds, leastDue, onGranted, onFailed, log },
    ...(deps.clock ? { unixMs: deps.clock.unixMs } : {}),
  });
  const judge = createJudge({ store: createStandingStore(db), charges, leastDue, log, ...clock });
  const months = createMonthClosing({ store: invoiceStore, log, onClosed: judge.judge, ...clock });

  /** Features of the public edge. */
  const verbs = {
    charges,
    checklists: createChecklists({ store: { ...store, ...invoiceStore }, judge: judge.judge, leastDue, ...clock }),
    invoices: createInvoiceQueries({ store: invoiceStore, linkKey: deps.invoiceLinkKey, leastDue, ...clock }),
    limits: createLimits({ store: createLimitStore(db), judge: judge.judge, ...clock }),
    paying: createPaying({ provider, store, charges, judge: judge.judge }),
    moneyOverview: createMoneyOverviewStore(db),
  };

  return {
    funds,
    judge: judge.judge,
    judgeRound: judge.round,
    closeMonths: months.closeMonths,
    ...verbs,
    verbs,
    run: judge.run,
    /** Returns remaining nano-USD; null: no limit. */
    async left(account: AccountId): Promise<bigint | null> {
      const money = await store.accountMoney(account, Date.now());
      if (!money) return 0n;
      return money.limit === null ? null : money.limit - money.spent;
    },
  };
}
