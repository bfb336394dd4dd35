import { IconBoxModel2, IconFlask, IconHome, IconRocket } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { titles } from "../../text/titles.ts";

const section = "start";

export const startPages: readonly PageEntry[] = [
  {
    section,
    path: "/",
    title: titles.overview,
    icon: IconHome,
    load: async () => (await import("./overview.tsx")).Overview,
  },
  {
    section,
    path: "/first-call",
    title: titles.firstCall,
    icon: IconRocket,
    load: async () => (await import("../account/first-call.tsx")).FirstCall,
  },
  {
    section,
    path: "/playground",
    title: titles.playground,
    icon: IconFlask,
    isForOwner: true,
    load: async () => (await import("../playground/playground.tsx")).Playground,
  },
  {
    section,
    path: "/models",
    title: titles.models,
    icon: IconBoxModel2,
    load: async () => (await import("../models/list.tsx")).Models,
  },
  {
    section,
    path: "/models/$name",
    title: titles.modelsModel,
    load: async () => (await import("../models/model.tsx")).ModelPage,
  },
];
