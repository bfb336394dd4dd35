import {
  IconBox,
  IconFiles,
  IconMicrophone,
  IconPlug,
  IconRobot,
  IconServerBolt,
  IconStack2,
} from "@tabler/icons-react";
import type { PageEntry } from "../../app/page-entry.ts";
import { text as assets } from "../../text/assets.ts";
import { text } from "../../text/deployments.ts";
import { text as rentals } from "../../text/rentals.ts";

const section = "build";

export const buildPages: readonly PageEntry[] = [
  {
    section,
    path: "/deployments",
    title: text.title,
    icon: IconBox,
    load: async () => (await import("./list.tsx")).Deployments,
  },
  {
    section,
    path: "/deployments/new",
    title: text.create.title,
    load: async () => (await import("./new-deployment.tsx")).NewDeployment,
  },
  {
    section,
    path: "/deployments/$id",
    title: text.title,
    load: async () => (await import("./deployment.tsx")).DeploymentPage,
  },
  {
    section,
    path: "/adapters",
    title: assets.adapters.title,
    icon: IconPlug,
    load: async () => (await import("../assets/adapters.tsx")).Adapters,
  },
  {
    section,
    path: "/voices",
    title: assets.voices.title,
    icon: IconMicrophone,
    load: async () => (await import("../assets/voices.tsx")).Voices,
  },
  {
    section,
    path: "/files",
    title: assets.files.title,
    icon: IconFiles,
    load: async () => (await import("../assets/files.tsx")).Files,
  },
  {
    section,
    path: "/batches",
    title: assets.batches.title,
    icon: IconStack2,
    load: async () => (await import("../assets/batches.tsx")).Batches,
  },
  {
    section,
    path: "/containers",
    title: rentals.containers.title,
    icon: IconServerBolt,
    load: async () => (await import("../rentals/containers.tsx")).Containers,
  },
  {
    section,
    path: "/agents",
    title: rentals.agents.title,
    icon: IconRobot,
    load: async () => (await import("../rentals/agents.tsx")).Agents,
  },
  {
    section,
    path: "/agents/$id",
    title: rentals.agents.title,
    load: async () => (await import("../rentals/agent.tsx")).AgentPage,
  },
];
