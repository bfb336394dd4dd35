import { IconAlertTriangle, IconUsers } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text as incidents } from "../../text/incidents.ts";
import { text as accounts } from "../../text/operator-accounts.ts";

export const operatorPages: readonly PageEntry[] = [
  {
    section: "operator",
    path: "/incidents",
    title: incidents.title,
    icon: IconAlertTriangle,
    load: async () => (await import("./incidents.tsx")).IncidentList,
  },
  {
    section: "operator",
    path: "/accounts",
    title: accounts.title,
    icon: IconUsers,
    load: async () => (await import("./accounts.tsx")).Accounts,
  },
  {
    section: "operator",
    path: "/accounts/$uid",
    title: accounts.account,
    load: async () => (await import("./account.tsx")).AccountPage,
  },
];
