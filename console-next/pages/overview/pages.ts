import { IconHome } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text } from "../../text/overview.ts";

export const startPages: readonly PageEntry[] = [
  {
    section: "start",
    path: "/",
    title: text.title,
    icon: IconHome,
    load: async () => (await import("./overview.tsx")).Overview,
  },
];
