import { IconCreditCard, IconFileInvoice } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { titles } from "../../text/titles.ts";

const section = "money";

export const billingPages: readonly PageEntry[] = [
  {
    section,
    path: "/billing",
    reads: "readMoney",
    changes: "changeMoney",
    title: titles.billing,
    icon: IconCreditCard,
    load: async () => (await import("./billing.tsx")).Billing,
  },
  {
    section,
    path: "/invoices",
    reads: "readMoney",
    changes: "changeMoney",
    title: titles.invoices,
    icon: IconFileInvoice,
    load: async () => (await import("./invoices.tsx")).Invoices,
  },
  {
    section,
    path: "/invoices/$invoice",
    reads: "readMoney",
    changes: "changeMoney",
    title: titles.invoice,
    load: async () => (await import("./invoice.tsx")).InvoicePage,
  },
];
