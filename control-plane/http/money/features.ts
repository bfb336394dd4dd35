import type { CreateAccount } from "../../accounts/create-account.ts";
import type { Operator } from "../../accounts/operator.ts";
import type { Charges } from "../../billing/charges.ts";
import type { Checklists } from "../../billing/checklist.ts";
import type { Discounts } from "../../billing/discounts.ts";
import type { EndUsers } from "../../billing/end-users.ts";
import type { InvoiceKeys } from "../../billing/invoice-keys.ts";
import type { InvoiceQueries } from "../../billing/invoice-queries.ts";
import type { LimitAlerts } from "../../billing/limit-alerts.ts";
import type { Limits } from "../../billing/limits.ts";
import type { MoneyOverviewStore } from "../../billing/money-overview.ts";
import type { Paying } from "../../billing/paying.ts";
import type { PriceBook } from "../../billing/price-book.ts";
import type { QuarantineDesk } from "../../billing/quarantine-desk.ts";
import type { RequestLog } from "../../billing/request-log.ts";
import type { UsageDays } from "../../billing/usage-days.ts";
import type { UsageQueries } from "../../billing/usage-queries.ts";
import type { UsageSeals } from "../../billing/usage-seals.ts";
import type { MailServer } from "../../mail/mail-server.ts";
import type { Webhooks } from "../../webhooks/webhooks.ts";

export interface MoneyFeatures {
  readonly accounts: Pick<CreateAccount, "findOwnKey">;
  readonly operator: Pick<Operator, "names">;
  readonly usage: UsageQueries;
  readonly usageDays: UsageDays;
  readonly endUsers: EndUsers;
  readonly requestLog: RequestLog;
  readonly checklists: Checklists;
  readonly invoices: InvoiceQueries;
  readonly usageSeals: Pick<UsageSeals, "export">;
  readonly invoiceKeys: Pick<InvoiceKeys, "published">;
  readonly limits: Limits;
  readonly paying: Paying;
  readonly limitAlerts: Pick<LimitAlerts, "list">;
  /** Undefined: this installation sends no mails. */
  readonly mailServer: MailServer | undefined;
  /** Checks URLs of alerts. */
  readonly webhooks: Webhooks;
  readonly moneyOverview: MoneyOverviewStore;
  readonly usageQuarantine: QuarantineDesk;
  readonly charges: Pick<Charges, "requests" | "payments" | "fulfil" | "reject">;
  readonly prices: PriceBook;
  readonly discounts: Pick<Discounts, "list" | "create" | "end">;
  readonly publicUrl: string | undefined;
  /** Lines of the seller on invoices, the name first. Empty: the host of this server. */
  readonly invoiceSeller: readonly string[];
}
