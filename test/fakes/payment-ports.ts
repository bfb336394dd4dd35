// The billing pages over one account: figures of the interface's own examples.
import type { ChecklistReport } from "../../control-plane/billing/checklist.ts";
import { type InvoiceView, UnknownInvoice } from "../../control-plane/billing/invoice-queries.ts";
import type { HttpDeps } from "../../control-plane/http/verbs.ts";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";

const checklist: ChecklistReport = {
  paymentsBalance: nano(-18_000_000_000n),
  recent: nano(7_970_000_000n),
  limit: null,
  suspendReason: null,
  hasEmail: true,
  hasBillingAddress: false,
  hasPaymentMethod: false,
  overdueInvoices: 0,
  lastCheckedMs: 1_786_000_000_000,
  topup: { isOn: false, amount: nano(0n), threshold: nano(0n), hasFailed: false },
};

export const invoice: InvoiceView = {
  id: "inv_1",
  account: "u:1000000000001" as AccountId,
  month: 2026 * 12,
  total: 125_000_000n,
  createdAtMs: 1_769_904_000_000,
  dueAtMs: 1_771_113_600_000,
  paidAtMs: null,
  status: "open",
  amountDue: 25_000_000n,
  pagePath: "/invoices/inv_1?sig=good",
};

export function fakeBilling(key: KeyId): Pick<HttpDeps, "usage" | "checklists" | "invoices"> {
  return {
    usage: {
      usage: () =>
        Promise.resolve({
          initialMonth: "2026.02",
          months: [
            {
              period: "2026.02",
              fromMs: 1_769_904_000_000,
              toMs: 1_772_323_199_999,
              items: [
                {
                  model: { name: "org/model", task: "text-generation", isPrivate: false },
                  pricingType: "tokens",
                  discount: null,
                  units: 1_250_000,
                  cost: nano(125_000_000n),
                },
              ],
              totalCost: nano(125_000_000n),
              invoiceId: "NOT_FINAL",
            },
          ],
        }),
      byKey: () => Promise.resolve([{ key: key, name: "auto", initialMonth: "2026.02", months: [] }]),
      rent: () => Promise.resolve(new Map([["DpM4BkrjEspUwmTa", 3600]])),
    },
    checklists: { read: () => Promise.resolve(checklist) },
    invoices: {
      list: (_account, limit, startingAfter) => {
        if (startingAfter === "inv_other") return Promise.reject(new UnknownInvoice());
        return Promise.resolve({ invoices: [invoice].slice(0, limit), hasMore: limit === 1 });
      },
      page: (id, sig) =>
        sig === "good" ? Promise.resolve({ ...invoice, id, lines: [] }) : Promise.reject(new UnknownInvoice()),
    },
  };
}
