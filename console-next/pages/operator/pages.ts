import { IconAlertTriangle } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text as incidents } from "../../text/incidents.ts";

export const operatorPages: readonly PageEntry[] = [
  {
    section: "operator",
    path: "/incidents",
    title: incidents.title,
    icon: IconAlertTriangle,
    load: async () => (await import("./incidents.tsx")).IncidentList,
  },
];
