import {
  IconAlertTriangle,
  IconChecklist,
  IconCloudComputing,
  IconDatabaseExport,
  IconHistory,
  IconListSearch,
  IconScale,
  IconStack2,
  IconTags,
  IconUsers,
} from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text as incidents } from "../../text/incidents.ts";
import { text as accounts } from "../../text/operator-accounts.ts";
import { text as approvals } from "../../text/operator-approvals.ts";
import { text as audit } from "../../text/operator-audit.ts";
import { text as backups } from "../../text/operator-backups.ts";
import { text as deployments } from "../../text/operator-deployments.ts";
import { text as money } from "../../text/operator-money.ts";
import { text as prices } from "../../text/operator-prices.ts";
import { text as providers } from "../../text/operator-providers.ts";
import { text as requests } from "../../text/operator-requests.ts";

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
  {
    section: "operator",
    path: "/all-deployments",
    title: deployments.title,
    icon: IconStack2,
    load: async () => (await import("./all-deployments.tsx")).AllDeployments,
  },
  {
    section: "operator",
    path: "/all-deployments/$id",
    title: deployments.detail.title,
    load: async () => (await import("./seen-deployment.tsx")).SeenDeployment,
  },
  {
    section: "operator",
    path: "/requests",
    title: approvals.title,
    icon: IconChecklist,
    load: async () => (await import("./approvals.tsx")).Approvals,
  },
  {
    section: "operator",
    path: "/money",
    title: money.title,
    icon: IconScale,
    load: async () => (await import("./money.tsx")).Money,
  },
  {
    section: "operator",
    path: "/prices",
    title: prices.title,
    icon: IconTags,
    load: async () => (await import("./prices.tsx")).Prices,
  },
  {
    section: "operator",
    path: "/providers",
    title: providers.title,
    icon: IconCloudComputing,
    load: async () => (await import("./providers.tsx")).Providers,
  },
  {
    section: "operator",
    path: "/any-request-log",
    title: requests.title,
    icon: IconListSearch,
    load: async () => (await import("./any-requests.tsx")).AnyRequests,
  },
  {
    section: "operator",
    path: "/any-request-log/$id",
    title: requests.detail.title,
    load: async () => (await import("./any-request.tsx")).AnyRequest,
  },
  {
    section: "operator",
    path: "/backups",
    title: backups.title,
    icon: IconDatabaseExport,
    load: async () => (await import("./backups.tsx")).Backups,
  },
  {
    section: "operator",
    path: "/audit",
    title: audit.title,
    icon: IconHistory,
    load: async () => (await import("./audit.tsx")).Audit,
  },
];
