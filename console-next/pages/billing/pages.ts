import { IconCreditCard, IconFileInvoice } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text } from "../../text/billing.ts";

const section = "money";

export const billingPages: readonly PageEntry[] = [
  {
    section,
    path: "/billing",
    title: text.title,
    icon: IconCreditCard,
    load: async () => (await import("./billing.tsx")).Billing,
  },
  {
    section,
    path: "/invoices",
    title: text.invoices.title,
    icon: IconFileInvoice,
    load: async () => (await import("./invoices.tsx")).Invoices,
  },
  {
    section,
    path: "/invoices/$invoice",
    title: text.invoice.heading,
    load: async () => (await import("./invoice.tsx")).InvoicePage,
  },
];
