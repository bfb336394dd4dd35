// Converts a plan into a Pod, and GPUs into a resource or a claim. Pure.
import { isAbsolute, relative } from "node:path";
import type { ResourceV1ResourceClaim, V1Pod, V1Toleration, V1Volume, V1VolumeMount } from "@kubernetes/client-node";
import { type GpuVendor, vendorNames, vendorOf } from "../../proto/gpu-vendors.ts";
import { type ContainerPlan, DriverError } from "../reconcile/driver.ts";
import { annotationsOf, labelsOf, podNameOf } from "./pod-labels.ts";

/** Parts of Pods that the operator chooses: STOKER_KUBERNETES_POD. */
export interface PodSettings {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly V1Toleration[];
  readonly priorityClassName?: string;
  readonly runtimeClassName?: string;
  readonly schedulerName?: string;
  readonly serviceAccountName?: string;
  readonly imagePullSecrets?: readonly string[];
}

export interface PodFacts {
  readonly hostId: string;
  /** Name of the node in the cluster. */
  readonly node: string;
  readonly runtimeImage: string;
  readonly pod: PodSettings;
  readonly gpus: GpuSettings;
  /** Folder of the agent, and the claim that holds it; undefined: it is a folder of the node. */
  readonly data?: { readonly folder: string; readonly claim: string; readonly subPath: string } | undefined;
}

export type GpuSettings =
  /** A device plugin chooses the cards; only their number is asked for. */
  | { readonly kind: "resource"; readonly names: { readonly [Vendor in GpuVendor]?: string } }
  /** Dynamic resource allocation: the claim names each card. */
  | { readonly kind: "claim"; readonly deviceClass: string };

/** A source on this host, after links: a folder or a file. */
export type Source = { readonly path: string; readonly isFolder: boolean };

const mib = 1024 * 1024;
/** As long as the loop gives an instance that it stops. A Pod cannot be given longer afterwards. */
export const graceSeconds = 10;
/** An unused address: without it the resolver would send queries out of an isolated network. */
const noDns = "192.0.2.1";
const claimName = "gpus";

/** Throws DriverError for what a Pod cannot have. `sources`: those of the plan's mounts, by path. */
export function podOfPlan(plan: ContainerPlan, facts: PodFacts, sources: ReadonlyMap<string, Source>): V1Pod {
  const { pod } = facts;
  const storage = storageOf(plan, facts, sources);
  const claim = claimOfPlan(plan, facts);
  return {
    metadata: {
      name: podNameOf(plan.instanceId),
      labels: { ...pod.labels, ...labelsOf(facts.hostId, plan.instanceId) },
      annotations: { ...pod.annotations, ...annotationsOf(plan) },
    },
    spec: {
      // The scheduler binds it, so that quotas, taints, priorities and claims are respected.
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: [facts.node] }] }],
          },
        },
      },
      ...(pod.tolerations ? { tolerations: [...pod.tolerations] } : {}),
      ...(pod.priorityClassName ? { priorityClassName: pod.priorityClassName } : {}),
      ...(pod.runtimeClassName ? { runtimeClassName: pod.runtimeClassName } : {}),
      ...(pod.schedulerName ? { schedulerName: pod.schedulerName } : {}),
      ...(pod.serviceAccountName ? { serviceAccountName: pod.serviceAccountName } : {}),
      ...(pod.imagePullSecrets ? { imagePullSecrets: pod.imagePullSecrets.map((name) => ({ name })) } : {}),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      // The agent restarts it with a back-off and records the reason.
      restartPolicy: "Never",
      terminationGracePeriodSeconds: graceSeconds,
      dnsPolicy: "None",
      dnsConfig: { nameservers: [noDns] },
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 2000,
        runAsGroup: 0,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [
        {
          name: "server",
          image: plan.image || facts.runtimeImage,
          imagePullPolicy: "IfNotPresent",
          ...(plan.entrypoint ? { command: plan.entrypoint.map(asLiteral) } : {}),
          args: plan.args.map(asLiteral),
          env: environmentOf(plan),
          ports: [{ containerPort: plan.port }],
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
          resources: resourcesOf(plan, facts, claim !== undefined),
          volumeMounts: storage.mounts,
        },
      ],
      volumes: storage.volumes,
      ...(claim ? { resourceClaims: [{ name: claimName, resourceClaimName: podNameOf(plan.instanceId) }] } : {}),
    },
  };
}

/** Kubernetes expands `$(NAME)` and `$$` in arguments and in values of variables; here every text means itself. */
const asLiteral = (text: string) => text.replaceAll("$", "$$$$");

function environmentOf(plan: ContainerPlan): { name: string; value: string }[] {
  // They choose devices and driver parts: the resource or claim alone decides.
  const own = Object.entries(plan.env).filter(([key]) => !key.toUpperCase().startsWith("NVIDIA_"));
  const fixed = { HF_HUB_OFFLINE: "1", ...(plan.gpuUuids.length === 0 ? { NVIDIA_VISIBLE_DEVICES: "void" } : {}) };
  return [...own, ...Object.entries(fixed)].map(([name, value]) => ({ name, value: asLiteral(value) }));
}

function resourcesOf(plan: ContainerPlan, facts: PodFacts, hasClaim: boolean) {
  // Limits without requests are requests as well.
  const limits = {
    ...(plan.memoryBytes > 0 ? { memory: String(plan.memoryBytes) } : {}),
    ...(plan.cpus > 0 ? { cpu: `${Math.ceil(plan.cpus * 1000)}m` } : {}),
    ...(hasClaim ? {} : gpuResource(plan, facts)),
  };
  return { limits, ...(hasClaim ? { claims: [{ name: claimName }] } : {}) };
}

function gpuResource({ gpuUuids }: ContainerPlan, { gpus }: PodFacts): Record<string, string> {
  if (gpuUuids.length === 0 || gpus.kind !== "resource") return {};
  const vendor = vendorOf(gpuUuids[0] ?? "");
  const name = vendor && gpus.names[vendor];
  if (name) return { [name]: String(gpuUuids.length) };
  throw refusal(
    `The host's cluster has no resource for ${vendor ? vendorNames[vendor] : "these"} GPUs: inform your operator.`,
  );
}

/** Claim of exactly the GPUs of the plan; undefined: it has none, or they are a resource. */
export function claimOfPlan(plan: ContainerPlan, { hostId, gpus }: PodFacts): ResourceV1ResourceClaim | undefined {
  if (plan.gpuUuids.length === 0 || gpus.kind !== "claim") return undefined;
  // NVIDIA's driver alone publishes the ids that its tool prints.
  if (!plan.gpuUuids.every((uuid) => /^(GPU|MIG)-[\w/-]+$/.test(uuid)))
    throw refusal("The host's cluster has claims for GPUs of NVIDIA only: inform your operator.");
  return {
    metadata: { name: podNameOf(plan.instanceId), labels: labelsOf(hostId, plan.instanceId) },
    spec: {
      devices: {
        requests: plan.gpuUuids.map((uuid, index) => ({
          name: `gpu-${index}`,
          exactly: {
            deviceClassName: gpus.deviceClass,
            allocationMode: "ExactCount",
            count: 1,
            selectors: [{ cel: { expression: `device.attributes["gpu.nvidia.com"].uuid == ${JSON.stringify(uuid)}` } }],
          },
        })),
      },
    },
  };
}

function storageOf(plan: ContainerPlan, { data }: PodFacts, sources: ReadonlyMap<string, Source>) {
  const volumes: V1Volume[] = [
    { name: "tmp", emptyDir: { medium: "Memory", sizeLimit: String(plan.scratchBytes ?? 256 * mib) } },
    { name: "shm", emptyDir: { medium: "Memory", sizeLimit: String(plan.shmBytes || 64 * mib) } },
    ...(data ? [{ name: "data", persistentVolumeClaim: { claimName: data.claim } }] : []),
  ];
  const mounts: V1VolumeMount[] = [
    { name: "tmp", mountPath: "/tmp" },
    { name: "shm", mountPath: "/dev/shm" },
  ];
  for (const [index, { source, target, readOnly }] of plan.mounts.entries()) {
    const found = sources.get(source);
    if (!found) throw refusal(`The file or folder ${source} of this host is missing.`, true);
    if (!data) {
      const name = `host-${index}`;
      // With a type the Pod fails where it is missing; otherwise an empty folder would appear there.
      volumes.push({ name, hostPath: { path: found.path, type: found.isFolder ? "Directory" : "File" } });
      mounts.push({ name, mountPath: target, readOnly });
      continue;
    }
    const inside = relative(data.folder, found.path);
    if (inside === "" || inside.startsWith("..") || isAbsolute(inside))
      throw refusal(`${found.path} is not in the claim ${data.claim}, which holds the agent's folder.`);
    const subPath = [data.subPath, inside].filter((part) => part !== "").join("/");
    mounts.push({ name: "data", mountPath: target, subPath, readOnly });
  }
  return { volumes, mounts };
}

const refusal = (message: string, retryable = false) => new DriverError("start_failed", message, { retryable });
