import { IconActivity, IconCpu, IconHistory, IconServer2 } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text } from "../../text/fleet.ts";
import { text as enrolment } from "../../text/fleet-enrolment.ts";
import { text as events } from "../../text/fleet-events.ts";
import { text as host } from "../../text/fleet-host.ts";
import { text as top } from "../../text/fleet-top.ts";

const section = "operator";

export const fleetPages: readonly PageEntry[] = [
  {
    section,
    path: "/fleet",
    title: text.title,
    icon: IconCpu,
    load: async () => (await import("./fleet.tsx")).FleetPage,
  },
  {
    section,
    path: "/nodes/$id",
    title: host.title,
    load: async () => (await import("./host.tsx")).HostPage,
  },
  {
    section,
    path: "/enrolment",
    title: enrolment.title,
    icon: IconServer2,
    load: async () => (await import("./enrolment.tsx")).EnrolmentPage,
  },
  {
    section,
    path: "/top",
    title: top.title,
    icon: IconActivity,
    load: async () => (await import("./top.tsx")).TopPage,
  },
  {
    section,
    path: "/events",
    title: events.title,
    icon: IconHistory,
    load: async () => (await import("./events.tsx")).EventsPage,
  },
];
