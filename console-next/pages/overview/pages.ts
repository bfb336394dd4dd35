import { IconBoxModel2, IconFlask, IconHome, IconRocket } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text as firstCall } from "../../text/first-call.ts";
import { text as models } from "../../text/models.ts";
import { text } from "../../text/overview.ts";
import { text as playground } from "../../text/playground.ts";

const section = "start";

export const startPages: readonly PageEntry[] = [
  {
    section,
    path: "/",
    title: text.title,
    icon: IconHome,
    load: async () => (await import("./overview.tsx")).Overview,
  },
  {
    section,
    path: "/first-call",
    title: firstCall.title,
    icon: IconRocket,
    load: async () => (await import("../account/first-call.tsx")).FirstCall,
  },
  {
    section,
    path: "/playground",
    title: playground.title,
    icon: IconFlask,
    isForOwner: true,
    load: async () => (await import("../playground/playground.tsx")).Playground,
  },
  {
    section,
    path: "/models",
    title: models.title,
    icon: IconBoxModel2,
    load: async () => (await import("../models/list.tsx")).Models,
  },
  {
    section,
    path: "/models/$name",
    title: models.model.title,
    load: async () => (await import("../models/model.tsx")).ModelPage,
  },
];
