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
import { titles } from "../../text/titles.ts";

const section = "build";

export const buildPages: readonly PageEntry[] = [
  {
    section,
    path: "/deployments",
    title: titles.deployments,
    icon: IconBox,
    load: async () => (await import("./list.tsx")).Deployments,
  },
  {
    section,
    path: "/deployments/new",
    title: titles.newDeployment,
    load: async () => (await import("./new-deployment.tsx")).NewDeployment,
  },
  {
    section,
    path: "/deployments/$id",
    title: titles.deployments,
    load: async () => (await import("./deployment.tsx")).DeploymentPage,
  },
  {
    section,
    path: "/adapters",
    title: titles.adapters,
    icon: IconPlug,
    load: async () => (await import("../assets/adapters.tsx")).Adapters,
  },
  {
    section,
    path: "/voices",
    title: titles.voices,
    icon: IconMicrophone,
    load: async () => (await import("../assets/voices.tsx")).Voices,
  },
  {
    section,
    path: "/files",
    title: titles.files,
    icon: IconFiles,
    load: async () => (await import("../assets/files.tsx")).Files,
  },
  {
    section,
    path: "/batches",
    title: titles.batches,
    icon: IconStack2,
    load: async () => (await import("../assets/batches.tsx")).Batches,
  },
  {
    section,
    path: "/containers",
    title: titles.containers,
    icon: IconServerBolt,
    load: async () => (await import("../rentals/containers.tsx")).Containers,
  },
  {
    section,
    path: "/agents",
    title: titles.agents,
    icon: IconRobot,
    load: async () => (await import("../rentals/agents.tsx")).Agents,
  },
  {
    section,
    path: "/agents/$id",
    title: titles.agents,
    load: async () => (await import("../rentals/agent.tsx")).AgentPage,
  },
  {
    section,
    path: "/agents/$id/terminal",
    title: titles.terminal,
    isForOwner: true,
    load: async () => (await import("../rentals/terminal.tsx")).AgentTerminal,
  },
  {
    section,
    path: "/containers/$id/terminal",
    title: titles.terminal,
    isForOwner: true,
    load: async () => (await import("../rentals/terminal.tsx")).ContainerTerminal,
  },
];
