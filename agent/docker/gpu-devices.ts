// The part of a container's configuration that gives it its GPUs: by CDI for every maker where the engine knows the names, else by
// the maker's runtime or device files.
import type { HostConfig } from "dockerode";
import type { ContainerPlan } from "../reconcile/driver.ts";

type Devices = Pick<HostConfig, "DeviceRequests" | "Devices" | "GroupAdd">;

export function gpuDevices({ gpuUuids, gpuAccess }: Pick<ContainerPlan, "gpuUuids" | "gpuAccess">): Devices {
  if (gpuUuids.length === 0) return {};
  switch (gpuAccess?.kind) {
    case undefined:
      return { DeviceRequests: [{ Driver: "nvidia", DeviceIDs: [...gpuUuids], Capabilities: [["gpu"]] }] };
    case "cdi":
      return { DeviceRequests: [{ Driver: "cdi", DeviceIDs: [...gpuAccess.names] }] };
    case "files":
      return {
        Devices: gpuAccess.devices.map((path) => ({
          PathOnHost: path,
          PathInContainer: path,
          CgroupPermissions: "rw",
        })),
        GroupAdd: gpuAccess.groups.map(String),
      };
  }
}
