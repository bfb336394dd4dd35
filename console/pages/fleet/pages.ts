import { IconActivity, IconCpu, IconHistory, IconServer2 } from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { titles } from "../../text/titles.ts";

const section = "operator";

export const fleetPages: readonly PageEntry[] = [
  {
    section,
    path: "/fleet",
    title: titles.fleet,
    icon: IconCpu,
    load: async () => (await import("./fleet.tsx")).FleetPage,
  },
  {
    section,
    path: "/nodes/$id",
    title: titles.fleetHost,
    load: async () => (await import("./host.tsx")).HostPage,
  },
  {
    section,
    path: "/enrolment",
    title: titles.fleetEnrolment,
    icon: IconServer2,
    load: async () => (await import("./enrolment.tsx")).EnrolmentPage,
  },
  {
    section,
    path: "/top",
    title: titles.fleetTop,
    icon: IconActivity,
    load: async () => (await import("./top.tsx")).TopPage,
  },
  {
    section,
    path: "/events",
    title: titles.fleetEvents,
    icon: IconHistory,
    load: async () => (await import("./events.tsx")).EventsPage,
  },
];
