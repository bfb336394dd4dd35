import {
  IconArrowsSplit2,
  IconChartBar,
  IconGauge,
  IconKey,
  IconListSearch,
  IconShieldLock,
  IconWebhook,
} from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { titles } from "../../text/titles.ts";

export const accountPages: readonly PageEntry[] = [
  {
    section: "build",
    path: "/aliases",
    title: titles.aliases,
    icon: IconArrowsSplit2,
    load: async () => (await import("./aliases.tsx")).Aliases,
  },
  {
    section: "account",
    path: "/keys",
    title: titles.keys,
    icon: IconKey,
    load: async () => (await import("./keys.tsx")).Keys,
  },
  {
    section: "account",
    path: "/usage",
    title: titles.usage,
    icon: IconChartBar,
    load: async () => (await import("./usage.tsx")).Usage,
  },
  {
    section: "account",
    path: "/request-log",
    title: titles.requestLog,
    icon: IconListSearch,
    load: async () => (await import("./request-log.tsx")).RequestLog,
  },
  {
    section: "account",
    path: "/request-log/$id",
    title: titles.requestLogDetail,
    load: async () => (await import("./request.tsx")).RequestPage,
  },
  {
    section: "account",
    path: "/webhooks",
    title: titles.webhooks,
    icon: IconWebhook,
    load: async () => (await import("./webhooks.tsx")).Webhooks,
  },
  {
    section: "account",
    path: "/limits",
    title: titles.limits,
    icon: IconGauge,
    load: async () => (await import("./limits.tsx")).Limits,
  },
  {
    section: "account",
    path: "/security",
    title: titles.security,
    icon: IconShieldLock,
    isForOwner: true,
    load: async () => (await import("./security.tsx")).Security,
  },
];
