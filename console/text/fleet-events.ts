import { titles } from "./titles.ts";

export const text = {
  title: titles.fleetEvents,
  about: "What happened to hosts, GPUs, deployments and instances of all customers. Kept for 30 days.",
  noun: "Show",
  nouns: { "": "All", host: "Hosts", gpu: "GPUs", deployment: "Deployments", instance: "Instances" },
  node: "Host",
  nodeHint: "Id or name",
  account: "Customer",
  deployment: "Deployment",
  deploymentHint: "Id",
  apply: "Filter",
  clear: "Clear",
  empty: "No events in the last 30 days.",
  emptyFilter: "No event passes these filters.",
  more: "Older events",
  gpu: (uuid: string) => `GPU ${uuid}`,
  instance: (id: string) => `Instance ${id}`,
  of: (kind: string, state: string): string => {
    const [noun, verb = ""] = kind.split(".");
    switch (kind) {
      case "deployment.created":
        return "Deployment created";
      case "deployment.scaled":
        return `Desired instances set to ${state}`;
      case "deployment.specified":
        return `Settings changed to version ${state}`;
      case "deployment.reverted":
        return "Update rolled back";
      case "instance.placed":
        return "Instance placed";
      case "instance.waiting":
        return "Instance does not start yet";
      case "instance.restarted":
        return `Instance restarted (${state})`;
      case "instance.removed":
        return "Instance removed";
      case "host.joined":
        return `Host joined with agent ${state}`;
      case "host.agent_started":
        return `Agent ${state} started`;
      case "host.silent":
        return "Host does not report";
      case "host.lost":
        return "Host counts as lost";
      case "host.returned":
        return "Host reports again";
      case "host.usable":
        return "Host accepts instances";
      case "host.unusable":
        return "Host accepts no instances";
      case "host.cloned":
        return "Two agents use the identity of the host";
      case "host.cordoned":
        return "Host cordoned";
      case "host.draining":
        return "Drain began";
      case "host.uncordoned":
        return "Host back in use";
      case "gpu.cordoned":
        return "GPU taken out of use";
      case "gpu.uncordoned":
        return "GPU back in use";
      default:
        return noun === "deployment" ? `Deployment ${verb}` : `Instance ${verb}`;
    }
  },
} as const;
