// Payments, charges, good standing of accounts, invoices and limits, with their stores.
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import { createAccountStatus } from "../billing/account-status.ts";
import { createCharges } from "../billing/charges.ts";
import { createChecklists } from "../billing/checklist.ts";
import { createFunds } from "../billing/funds.ts";
import { createInvoiceKeys } from "../billing/invoice-keys.ts";
import { createInvoiceQueries } from "../billing/invoice-queries.ts";
import { type AlertMail, createLimitAlerts } from "../billing/limit-alerts.ts";
import { createLimits } from "../billing/limits.ts";
import { createMonthClosing } from "../billing/months.ts";
import { createPaying } from "../billing/paying.ts";
import { nanoPerCent, type PaymentProvider } from "../billing/payments.ts";
import { createUsageSeals } from "../billing/usage-seals.ts";
import type { ControlPlaneConfig } from "../config.ts";
import { createManualPayments } from "../payments/manual.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createAccountStatusStore } from "../store/money/account-status-store.ts";
import { createBillingStore } from "../store/money/billing-store.ts";
import { createChargeStore } from "../store/money/charge-store.ts";
import { createFundsStore } from "../store/money/funds-store.ts";
import { createInvoiceStore } from "../store/money/invoice-store.ts";
import { createLimitAlertStore } from "../store/money/limit-alert-store.ts";
import { createLimitStore } from "../store/money/limit-store.ts";
import { createMoneyOverviewStore } from "../store/money/money-overview-store.ts";
import { createInvoiceKeyStore, createUsageSealStore } from "../store/money/usage-seal-store.ts";
import { makeWebhookId } from "../webhooks/run-jobs.ts";

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
  /** Where reports are read; undefined: in `db`. */
  readonly reportDb?: OpenDatabase["db"];
  readonly provider: PaymentProvider;
  /** Signs the links of invoices. */
  readonly invoiceLinkKey: Buffer;
  /** Seals the keys that sign invoice exports. */
  readonly invoiceKeySeal: Parameters<typeof createInvoiceKeys>[0]["seal"];
  /** Undefined: this installation sends no mails. */
  readonly mail?: AlertMail | undefined;
  readonly log: Logger;
  readonly clock?: Parameters<typeof createAccountStatus>[0]["clock"];
}) {
  const { db, provider, log } = deps;
  const clock = deps.clock ? { clock: deps.clock } : {};
  const minDue = BigInt(provider.minCents) * nanoPerCent;
  const store = createBillingStore(db);
  const invoiceStore = createInvoiceStore(db);
  // The account can pay again or has paid its debt: its status is updated before the reply to the grant.
  const onGranted = async (account: AccountId) => {
    try {
      await store.clearFailures(account);
      await status.update(account);
    } catch (error) {
      log.warn({ err: error, account }, "account status update after credit failed; will retry");
    }
  };
  const funds = createFunds({ store: createFundsStore(db), onGranted });
  const onFailed = (account: AccountId) => status.update(account);
  const charges = createCharges({
    store: createChargeStore(db),
    provider,
    funds,
    minDue,
    onGranted,
    onFailed,
    log,
    ...(deps.clock ? { unixMs: deps.clock.unixMs } : {}),
  });
  const status = createAccountStatus({ store: createAccountStatusStore(db), charges, minDue, log, ...clock });
  const months = createMonthClosing({ store: invoiceStore, log, onClosed: status.update, ...clock });

  const invoiceKeys = createInvoiceKeys({ store: createInvoiceKeyStore(db), seal: deps.invoiceKeySeal, ...clock });
  const usageSeals = createUsageSeals({ store: createUsageSealStore(db), keys: invoiceKeys, log, ...clock });

  /** Features of the public edge. */
  const verbs = {
    charges,
    checklists: createChecklists({
      store: { ...store, ...invoiceStore },
      updateStatus: status.update,
      minDue,
      ...clock,
    }),
    invoices: createInvoiceQueries({ store: invoiceStore, linkKey: deps.invoiceLinkKey, minDue, ...clock }),
    usageSeals,
    invoiceKeys,
    limits: createLimits({ store: createLimitStore(db), updateStatus: status.update, ...clock }),
    limitAlerts: createLimitAlerts({
      store: createLimitAlertStore(db),
      makeWebhookId,
      mail: deps.mail,
      ...clock,
    }),
    paying: createPaying({ provider, store, charges, updateStatus: status.update }),
    moneyOverview: createMoneyOverviewStore(deps.reportDb ?? db),
  };

  return {
    funds,
    updateStatus: status.update,
    updateStatuses: status.updateAll,
    closeMonths: months.closeMonths,
    ...verbs,
    verbs,
    run: status.run,
    /** Returns remaining nano-USD; null: no limit. */
    async left(account: AccountId): Promise<bigint | null> {
      const money = await store.accountMoney(account, Date.now());
      if (!money) return 0n;
      return money.limit === null ? null : money.limit - money.spent;
    },
  };
}
