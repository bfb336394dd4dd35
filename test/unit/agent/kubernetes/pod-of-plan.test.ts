import type { V1Pod } from "@kubernetes/client-node";
import { describe, expect, it } from "vitest";
import { ownedOf, podNameOf } from "../../../../agent/kubernetes/pod-labels.ts";
import { claimOfPlan, type PodFacts, podOfPlan } from "../../../../agent/kubernetes/pod-of-plan.ts";
import type { ContainerPlan } from "../../../../agent/reconcile/driver.ts";
import type { DeploymentId, InstanceId } from "../../../../proto/ids.ts";

const facts: PodFacts = {
  hostId: "host",
  node: "node-1",
  runtimeImage: "registry.example.com/runtime:1",
  pod: {},
  gpus: { kind: "resource", names: { nvidia: "nvidia.com/gpu", amd: "amd.com/gpu" } },
};
const plan: ContainerPlan = {
  instanceId: "Instance_1-" as InstanceId,
  deployId: "deployment" as DeploymentId,
  generation: 3,
  kind: "runtime",
  image: "",
  args: ["--name", "$(HOME)"],
  env: { STOKER_INSTANCE_ID: "i1", NVIDIA_VISIBLE_DEVICES: "all", TEXT: "$(PATH) $$(X)" },
  mounts: [{ source: "/data/models/m.gguf", target: "/models/m.gguf", readOnly: true }],
  port: 8000,
  memoryBytes: 1024,
  cpus: 1.5,
  gpuUuids: [],
  shmBytes: 0,
};
const sources = new Map([["/data/models/m.gguf", { path: "/data/blobs/abc", isFolder: false }]]);
const podOf = (over: Partial<ContainerPlan> = {}, how: Partial<PodFacts> = {}) =>
  podOfPlan({ ...plan, ...over }, { ...facts, ...how }, sources);
const container = (pod: V1Pod) => pod.spec?.containers[0];
const nvidia = ["GPU-a", "GPU-b"];

describe("the Pod of a plan", () => {
  it("has a name that the API server admits and that holds for every generation and host", () => {
    expect(podNameOf(plan.instanceId)).toMatch(/^[a-z0-9-]{1,63}$/);
    expect(podOf({ generation: 4 }, { hostId: "other" }).metadata?.name).toBe(podOf().metadata?.name);
  });

  it("is found again with all that a later agent needs", () => {
    expect(ownedOf(podOf({ claimedGpus: ["GPU-a"] }).metadata)).toEqual({
      instanceId: plan.instanceId,
      deployId: "deployment",
      generation: 3,
      port: 8000,
      claimedGpus: ["GPU-a"],
    });
    expect(ownedOf({ ...podOf().metadata, name: "another" })).toBeUndefined();
    expect(ownedOf({ ...podOf().metadata, annotations: {} })).toBeUndefined();
  });

  it("is left to the scheduler, on the agent's node", () => {
    const { spec } = podOf();
    expect(spec?.nodeName).toBeUndefined();
    expect(spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution).toEqual({
      nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["node-1"] }] }],
    });
  });

  it("has no rights, no token, a read-only root, bounded memory and no way to its maker's devices but its resources", () => {
    const pod = podOf();
    expect(pod.spec).toMatchObject({
      automountServiceAccountToken: false,
      restartPolicy: "Never",
      securityContext: { runAsNonRoot: true, runAsUser: 2000, seccompProfile: { type: "RuntimeDefault" } },
    });
    expect(container(pod)).toMatchObject({
      securityContext: {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      },
      resources: { limits: { memory: "1024", cpu: "1500m" } },
    });
    const env = container(pod)?.env ?? [];
    expect(env.filter(({ name }) => name === "NVIDIA_VISIBLE_DEVICES")).toEqual([
      { name: "NVIDIA_VISIBLE_DEVICES", value: "void" },
    ]);
  });

  it("passes texts as they are, which Kubernetes would expand", () => {
    expect(container(podOf())?.args).toEqual(["--name", "$$(HOME)"]);
    expect(container(podOf())?.env).toContainEqual({ name: "TEXT", value: "$$(PATH) $$$$(X)" });
  });

  it("mounts what the plan names after links, and fails where that is missing", () => {
    expect(podOf().spec?.volumes).toContainEqual({
      name: "host-0",
      hostPath: { path: "/data/blobs/abc", type: "File" },
    });
    expect(() => podOfPlan(plan, facts, new Map())).toThrow("/data/models/m.gguf of this host is missing");
  });

  it("mounts parts of the agent's claim, and nothing outside of it", () => {
    const data = { folder: "/data", claim: "weights", subPath: "node-1" };
    const pod = podOf({}, { data });
    expect(pod.spec?.volumes?.filter((volume) => volume.hostPath)).toEqual([]);
    expect(container(pod)?.volumeMounts).toContainEqual({
      name: "data",
      mountPath: "/models/m.gguf",
      subPath: "node-1/blobs/abc",
      readOnly: true,
    });
    expect(() => podOf({}, { data: { ...data, folder: "/data/models" } })).toThrow("is not in the claim weights");
  });

  it("asks for GPUs by the resource of their maker", () => {
    expect(container(podOf({ gpuUuids: nvidia }))?.resources?.limits).toMatchObject({ "nvidia.com/gpu": "2" });
    expect(container(podOf({ gpuUuids: ["AMD-1"] }))?.resources?.limits).not.toHaveProperty("nvidia.com/gpu");
    expect(() => podOf({ gpuUuids: nvidia }, { gpus: { kind: "resource", names: {} } })).toThrow(
      "has no resource for NVIDIA GPUs",
    );
  });

  it("asks for exactly its GPUs by a claim", () => {
    const gpus = { kind: "claim", deviceClass: "gpu.nvidia.com" } as const;
    const pod = podOf({ gpuUuids: nvidia }, { gpus });
    expect(pod.spec?.resourceClaims).toEqual([{ name: "gpus", resourceClaimName: pod.metadata?.name }]);
    expect(container(pod)?.resources?.limits).not.toHaveProperty("nvidia.com/gpu");
    const claim = claimOfPlan({ ...plan, gpuUuids: nvidia }, { ...facts, gpus });
    const expressions = claim?.spec.devices?.requests?.map((one) => one.exactly?.selectors?.[0]?.cel?.expression);
    expect(expressions).toEqual(nvidia.map((uuid) => `device.attributes["gpu.nvidia.com"].uuid == "${uuid}"`));
    expect(() => claimOfPlan({ ...plan, gpuUuids: ["AMD-1"] }, { ...facts, gpus })).toThrow("GPUs of NVIDIA only");
  });
});
