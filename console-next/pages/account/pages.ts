import { IconGauge, IconShieldLock, IconWebhook } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text as limits } from "../../text/limits.ts";
import { text as security } from "../../text/security.ts";
import { text as webhooks } from "../../text/webhooks.ts";

export const accountPages: readonly PageEntry[] = [
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
