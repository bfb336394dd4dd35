// What a Pod says about the instance in it. Pure.
import type { V1ContainerStateTerminated, V1Pod, V1PodCondition } from "@kubernetes/client-node";
import { signalOf } from "../containers/exit-signal.ts";
import type { Observed } from "../reconcile/driver.ts";
import { ownedOf } from "./pod-labels.ts";

/** Undefined for a Pod that is not ours, or that ends without ever having run. */
export function observePod(pod: V1Pod): Observed | undefined {
  const owned = ownedOf(pod.metadata);
  if (!owned) return undefined;
  const { instanceId, deployId, generation, port, claimedGpus } = owned;
  // Pods are never restarted, so each has one life.
  const base = { instanceId, deployId, generation, claimedGpus, identity: pod.metadata?.uid ?? "" };
  const { phase, podIP } = pod.status ?? {};
  const state = stateOf(pod);
  if (state?.terminated) return { ...base, state: "exited", ...exitOf(pod, state.terminated) };
  // The phase is final only once nothing of it runs. Lost and unreachable Pods keep theirs: they may run on.
  if (phase === "Failed" || phase === "Succeeded") return { ...base, state: "exited", ...exitOf(pod, undefined) };
  if (state?.running && podIP)
    return {
      ...base,
      state: "running",
      origin: `http://${podIP.includes(":") ? `[${podIP}]` : podIP}:${port}`,
      startedAtMs: timeOf(state.running.startedAt) ?? timeOf(pod.metadata?.creationTimestamp) ?? 0,
      ...(isEnding(pod) ? { isLeaving: true } : {}),
    };
  return { ...base, state: "starting", waitingFor: waitOf(pod), step: stepOf(pod) };
}

/**
 * A Pod that this agent did not create as it is now: nothing of it is used, and the next start or removal of the instance deletes it.
 */
export function asForeign(seen: Observed, { metadata }: V1Pod): Observed {
  const { instanceId, deployId, generation, claimedGpus, identity } = seen;
  return {
    instanceId,
    deployId,
    generation,
    identity,
    ...(claimedGpus ? { claimedGpus } : {}),
    state: "exited",
    exitCode: undefined,
    signal: undefined,
    oomKilled: false,
    finishedAtMs: timeOf(metadata?.creationTimestamp) ?? 0,
    endedBy: {
      code: "pod_not_ours",
      message:
        "the Pod of the model server was created or changed by another client of the cluster. It is started again.",
    },
  };
}

/** Its end is asked for, by whomever. */
function isEnding({ metadata, spec, status }: V1Pod): boolean {
  return (
    metadata?.deletionTimestamp !== undefined ||
    spec?.activeDeadlineSeconds !== undefined ||
    conditionOf(status?.conditions, "DisruptionTarget")?.status === "True"
  );
}

/** True once nothing of the Pod runs: its kubelet confirmed it, or it never had one. */
export function hasEnded(pod: V1Pod): boolean {
  return observePod(pod)?.state === "exited";
}

function exitOf(pod: V1Pod, ended: V1ContainerStateTerminated | undefined) {
  const code = ended?.exitCode;
  const signal = code === undefined ? undefined : signalOf(code);
  // Kubelets report exit code 137 with this reason when the end is unknown: the node was lost or restarted.
  const isUnknown = ended?.reason === "ContainerStatusUnknown";
  return {
    exitCode: signal === undefined && !isUnknown ? code : undefined,
    signal: isUnknown ? undefined : signal,
    oomKilled: ended?.reason === "OOMKilled",
    finishedAtMs: timeOf(ended?.finishedAt) ?? lastChangeMs(pod),
    endedBy: endedBy(pod),
  };
}

function endedBy({ spec, status }: V1Pod): { code: string; message: string } | undefined {
  const disruption = conditionOf(status?.conditions, "DisruptionTarget");
  const said = [status?.message, disruption?.status === "True" ? disruption.message : undefined].filter(Boolean)[0];
  const because = said ? `: ${sentence(said)}` : "";
  if (disruption?.status === "True" || status?.reason === "Evicted")
    return {
      code: "evicted",
      message: `the cluster evicted the model server (${disruption?.reason ?? status?.reason})${because}. It is started again.`,
    };
  // By this agent: STOP of the driver.
  if (!status?.reason || spec?.activeDeadlineSeconds !== undefined) return undefined;
  // OutOfcpu, UnexpectedAdmissionError, NodeAffinity and others, before it ran.
  if (!status.containerStatuses?.some(({ state }) => state?.terminated))
    return { code: "node_refused", message: `the node refused the model server (${status.reason})${because}.` };
  return { code: "ended_by_node", message: `the node ended the model server (${status.reason})${because}.` };
}

/** Reasons of kubelets for a container that waits as it should. */
const usual = new Set(["ContainerCreating", "PodInitializing"]);
/** While an image cannot be pulled, the first two take turns. */
const pullReasons = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "InvalidImageName",
  "ErrImageNeverPull",
  "ImageInspectError",
  "RegistryUnavailable",
]);

/** 0: it has no node yet, 1: the node prepares it or pulls its image, 2: the node starts its container. */
function stepOf(pod: V1Pod): number {
  const reason = stateOf(pod)?.waiting?.reason;
  if (reason) return usual.has(reason) || pullReasons.has(reason) ? 1 : 2;
  return conditionOf(pod.status?.conditions, "PodScheduled")?.status === "True" ? 1 : 0;
}

function waitOf(pod: V1Pod): string | undefined {
  if (pod.metadata?.deletionTimestamp) return "it is being removed from the cluster";
  const scheduled = conditionOf(pod.status?.conditions, "PodScheduled");
  if (scheduled?.status === "False")
    return `the cluster's scheduler has not placed it (${scheduled.reason ?? "pending"}): ${sentence(ofThisNode(scheduled.message))}`;
  const waiting = stateOf(pod)?.waiting;
  if (!waiting?.reason || usual.has(waiting.reason)) return undefined;
  const image = pod.spec?.containers[0]?.image;
  if (pullReasons.has(waiting.reason))
    return `the node cannot pull the image ${image} (${waiting.reason}): ${sentence(waiting.message)}`;
  return `the node cannot start the container (${waiting.reason}): ${sentence(waiting.message)}`;
}

/** Without the numbers, the taints and the affairs of other nodes: customers read it. The Pod has one node. */
function ofThisNode(said: string | undefined): string | undefined {
  const [reasons = ""] = (said ?? "").replace(/^\d+\/\d+ nodes are available: /, "").split(/\.? preemption: /);
  const own = reasons
    .replaceAll(/ \{[^}]*\}/g, "")
    .split(", ")
    .filter((reason) => !/didn't (match|satisfy).*(affinity|selector)/.test(reason))
    .map((reason) => reason.replace(/^\d+ (node\(s\) )?/, ""));
  return own.join(", ") || said;
}

const sentence = (said: string | undefined): string =>
  (said ?? "no reason given").replaceAll(/\s+/g, " ").trim().slice(0, 500).replace(/\.$/, "");

const stateOf = (pod: V1Pod) => pod.status?.containerStatuses?.[0]?.state;
const conditionOf = (conditions: readonly V1PodCondition[] | undefined, type: string) =>
  conditions?.find((one) => one.type === type);

/** The same at every look: a record is compared over restarts of the agent. */
function lastChangeMs({ metadata, status }: V1Pod): number {
  const times = (status?.conditions ?? []).map(({ lastTransitionTime }) => timeOf(lastTransitionTime) ?? 0);
  return Math.max(timeOf(metadata?.creationTimestamp) ?? 0, ...times);
}

/** Events of a watch hold text where lists hold dates. */
function timeOf(time: Date | string | undefined): number | undefined {
  const ms = time === undefined ? Number.NaN : new Date(time).getTime();
  return Number.isNaN(ms) ? undefined : ms;
}
