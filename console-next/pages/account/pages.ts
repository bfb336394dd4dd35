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
import { text as aliases } from "../../text/aliases.ts";
import { text as keys } from "../../text/keys.ts";
import { text as limits } from "../../text/limits.ts";
import { text as requestLog } from "../../text/request-log.ts";
import { text as security } from "../../text/security.ts";
import { text as usage } from "../../text/usage.ts";
import { text as webhooks } from "../../text/webhooks.ts";

export const accountPages: readonly PageEntry[] = [
  {
    section: "build",
    path: "/aliases",
    title: aliases.title,
    icon: IconArrowsSplit2,
    load: async () => (await import("./aliases.tsx")).Aliases,
  },
  {
    section: "account",
    path: "/keys",
    title: keys.title,
    icon: IconKey,
    load: async () => (await import("./keys.tsx")).Keys,
  },
  {
    section: "account",
    path: "/usage",
    title: usage.title,
    icon: IconChartBar,
    load: async () => (await import("./usage.tsx")).Usage,
  },
  {
    section: "account",
    path: "/request-log",
    title: requestLog.title,
    icon: IconListSearch,
    load: async () => (await import("./request-log.tsx")).RequestLog,
  },
  {
    section: "account",
    path: "/request-log/$id",
    title: requestLog.detail.title,
    load: async () => (await import("./request.tsx")).RequestPage,
  },
  {
    section: "account",
    path: "/webhooks",
    title: webhooks.title,
    icon: IconWebhook,
    load: async () => (await import("./webhooks.tsx")).Webhooks,
  },
  {
    section: "account",
    path: "/limits",
    title: limits.title,
    icon: IconGauge,
    load: async () => (await import("./limits.tsx")).Limits,
  },
  {
    section: "account",
    path: "/security",
    title: security.title,
    icon: IconShieldLock,
    isForOwner: true,
    load: async () => (await import("./security.tsx")).Security,
  },
];
