import { describe, expect, it } from "vitest";
import { ownedOf } from "../../../../agent/docker/labels.ts";
import { containerConfig } from "../../../../agent/docker/model-profile.ts";
import type { ContainerPlan } from "../../../../agent/reconcile/driver.ts";
import type { DeploymentId, InstanceId } from "../../../../proto/ids.ts";

const plan: ContainerPlan = {
  instanceId: "i1" as InstanceId,
  deployId: "d1" as DeploymentId,
  generation: 3,
  kind: "runtime",
  image: "",
  args: ["--flag"],
  env: { STOKER_PORT: "8000", NVIDIA_VISIBLE_DEVICES: "all", nvidia_driver_capabilities: "all" },
  mounts: [{ source: "/data/m.gguf", target: "/models/m.gguf", readOnly: true }],
  port: 8000,
  memoryBytes: 700_000_000,
  cpus: 1.5,
  gpuUuids: [],
  shmBytes: 0,
};
const facts = { nodeName: "node-a", runtimeImage: "stoker-runtime:0.1.0" };
const hostConfig = (change: Partial<ContainerPlan> = {}) => containerConfig({ ...plan, ...change }, facts).HostConfig;

describe("a container", () => {
  it("is isolated in every way the engine offers", () => {
    expect(containerConfig(plan, facts)).toMatchObject({ User: "2000:0", Image: "stoker-runtime:0.1.0" });
    expect(hostConfig()).toMatchObject({
      ReadonlyRootfs: true,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges:true"],
      PidsLimit: 4096,
      IpcMode: "private",
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "json-file", Config: { "max-size": "10m", "max-file": "3" } },
      NetworkMode: "stoker-i1",
    });
    for (const key of ["Privileged", "PortBindings", "Binds", "Devices", "PidMode", "CapAdd", "PublishAllPorts"])
      expect(hostConfig()).not.toHaveProperty(key);
  });

  it("has the memory and processor it was granted, and no swap", () => {
    expect(hostConfig()).toMatchObject({ Memory: 700_000_000, MemorySwap: 700_000_000, CpuQuota: 150_000 });
  });

  it("sees no GPU unless one is assigned, whatever its image or plan contain", () => {
    const environment = containerConfig(plan, facts).Env ?? [];
    expect(environment.filter((entry) => /^nvidia/i.test(entry))).toEqual(["NVIDIA_VISIBLE_DEVICES=void"]);
    expect(hostConfig()).not.toHaveProperty("DeviceRequests");
  });

  it("gets its GPUs by uuid, never by count", () => {
    const gpuUuids = ["GPU-1", "MIG-3e0c9a52-11d4-5c1a-9d0e-000000000001"];
    expect(hostConfig({ gpuUuids })?.DeviceRequests).toEqual([
      { Driver: "nvidia", DeviceIDs: gpuUuids, Capabilities: [["gpu"]] },
    ]);
    expect(containerConfig({ ...plan, gpuUuids }, facts).Env?.some((entry) => entry.startsWith("NVIDIA_"))).toBe(false);
  });

  it("has all facts for a later agent in its labels", () => {
    const labels = containerConfig(plan, facts).Labels ?? {};
    expect(ownedOf(labels)).toMatchObject({ instanceId: "i1", deployId: "d1", generation: 3, port: 8000 });
    expect(labels["stoker.node"]).toBe("node-a");
    expect(ownedOf({ "stoker.instance": "i1" })).toBeUndefined();
  });

  it("carries a hash that changes with anything it is made from", () => {
    const hash = (change: Partial<ContainerPlan>) =>
      ownedOf(containerConfig({ ...plan, ...change }, facts).Labels ?? {})?.plan;
    const all = [{}, { image: "other" }, { memoryBytes: 1 }, { env: {} }, { args: [] }].map(hash);
    expect(new Set(all).size).toBe(all.length);
    expect(hash({})).toBe(all[0]);
  });
});
