// Runs instances as Pods on one node of a cluster, through its API server. The cluster holds all state: Pods with this agent's label
// are ours to end, and those with its seal are used, also if an earlier agent started them. INVARIANTS: a namespace has at most one Pod
// of an instance, by its name; every change names the uid it saw; no Pod is deleted by force, so one counts as gone only after its kubelet, or Kubernetes for a node that
// was removed, has confirmed it.
import { randomUUID } from "node:crypto";
import { realpath, stat } from "node:fs/promises";
import { hostname } from "node:os";
import type { V1Pod } from "@kubernetes/client-node";
import type { Logger } from "pino";
import type { InstanceId } from "../../proto/ids.ts";
import { pause } from "../../proto/pause.ts";
import { createInTurn } from "../containers/in-turn.ts";
import { createListening } from "../containers/listening.ts";
import { selectLines } from "../containers/log-lines.ts";
import { type ContainerDriver, type ContainerPlan, DriverError } from "../reconcile/driver.ts";
import { AgentLease } from "./agent-lease.ts";
import { statusOf, wordsOf } from "./api-fault.ts";
import { type CallOptions, type Cluster, type ClusterOptions, connectCluster, followPods } from "./cluster.ts";
import { asForeign, hasEnded, observePod } from "./observe-pod.ts";
import { isOwn, leaseNameOf, ownedOf, ownSelector, podNameOf } from "./pod-labels.ts";
import { claimOfPlan, graceSeconds, type PodFacts, podOfPlan, type Source } from "./pod-of-plan.ts";
import { isSealed, type Seal, sealingPatch } from "./pod-seal.ts";

export interface KubernetesDriverOptions extends ClusterOptions, PodFacts {
  readonly log: Logger;
  readonly seal: Seal;
  /** Differs between agents that run at the same time. By default one of its own for each: clones of a disk have one host name. */
  readonly holder?: string;
}

const lookMs = 500;
/** Beyond the time that a server has to end: its kubelet has to notice and to confirm it. */
const stopMarginMs = 30_000;
const goneMs = 40_000;
const releaseMs = 3_000;

/** Throws when the kubeconfig is unusable. */
export class KubernetesDriver implements ContainerDriver {
  readonly #options: KubernetesDriverOptions;
  readonly #log: Logger;
  readonly #cluster: Cluster;
  readonly #lease: AgentLease;
  readonly #selector: string;
  readonly #inTurn = createInTurn();
  readonly #listening = createListening();
  readonly #closing = new AbortController();
  readonly #listeners: (() => void)[] = [];

  constructor(options: KubernetesDriverOptions) {
    this.#options = options;
    this.#log = options.log;
    this.#cluster = connectCluster(options);
    this.#selector = ownSelector(options.hostId);
    this.#lease = new AgentLease({
      cluster: this.#cluster,
      name: leaseNameOf(options.hostId),
      holder: options.holder ?? `${hostname()}-${randomUUID().slice(0, 8)}`,
      log: options.log,
    });
    void this.#lease.keep(this.#closing.signal);
  }

  /** The instance's Pod, also that of another agent; undefined: there is none. */
  async #find(id: InstanceId, options: CallOptions): Promise<V1Pod | undefined> {
    const { core, namespace } = this.#cluster;
    const pod = await ignoring(404, core.readNamespacedPod({ name: podNameOf(id), namespace }, options));
    if (!pod || (isOwn(this.#options.hostId, pod.metadata) && ownedOf(pod.metadata))) return pod;
    throw new DriverError(
      "start_failed",
      "Another Pod in the namespace has the name of this instance's: one of another agent, whose end is awaited.",
      { retryable: true },
    );
  }

  /** The same, and undefined if it belongs to another agent: nothing of it is this agent's to end. */
  async #own(id: InstanceId, options: CallOptions): Promise<V1Pod | undefined> {
    const { core, namespace } = this.#cluster;
    const pod = await ignoring(404, core.readNamespacedPod({ name: podNameOf(id), namespace }, options));
    return pod && isOwn(this.#options.hostId, pod.metadata) && ownedOf(pod.metadata) ? pod : undefined;
  }

  /** Asks for the end of this very Pod; never by force, which would remove the record of what may run on. */
  async #delete(pod: V1Pod, options: CallOptions): Promise<void> {
    const { core, namespace } = this.#cluster;
    const name = pod.metadata?.name ?? "";
    const uid = pod.metadata?.uid ?? "";
    const body = { gracePeriodSeconds: 1, preconditions: { uid } };
    // 409: another Pod has the name by now.
    await ignoring([404, 409], core.deleteNamespacedPod({ name, namespace, body }, options));
  }

  /** Waits until `isDone` holds of the Pod with this uid, or there is none. False at the limit. */
  async #until(
    id: InstanceId,
    uid: string,
    isDone: (pod: V1Pod) => boolean,
    limitMs: number,
    signal: AbortSignal,
  ): Promise<boolean> {
    const endMs = performance.now() + limitMs;
    for (;;) {
      const pod = await this.#cluster.call(signal, (options) => this.#own(id, options));
      if (!pod || pod.metadata?.uid !== uid || isDone(pod)) return true;
      if (performance.now() >= endMs) return false;
      await pause(lookMs, signal);
      signal.throwIfAborted();
    }
  }

  async #endAndForget(id: InstanceId, pod: V1Pod, signal: AbortSignal): Promise<void> {
    await this.#lease.change(signal, (options) => this.#delete(pod, options));
    if (!(await this.#until(id, pod.metadata?.uid ?? "", () => false, goneMs, signal))) throw unconfirmed(pod);
    // Usually it goes with its Pod; not if an agent ended between the two.
    if (this.#options.gpus.kind === "claim")
      await this.#lease.change(signal, (options) => this.#deleteClaim(id, options));
  }

  async #start(plan: ContainerPlan, signal: AbortSignal): Promise<void> {
    const sources = await sourcesOf(plan);
    const pod = podOfPlan(plan, this.#options, sources);
    const claim = claimOfPlan(plan, this.#options);
    await this.#lease.require(signal);
    const before = await this.#cluster.call(signal, (options) => this.#find(plan.instanceId, options));
    if (before && !hasEnded(before) && !before.metadata?.deletionTimestamp && isSealed(this.#options.seal, before)) {
      requireGeneration(before, plan);
      if (claim) await this.#lease.change(signal, (options) => this.#giveClaim(before, options));
      return;
    }
    if (before) await this.#endAndForget(plan.instanceId, before, signal);
    await this.#lease.change(signal, async (options) => {
      if (claim) await this.#createClaim(claim, plan.instanceId, options);
      const made = await this.#create(pod, plan, options).catch(async (error: unknown) => {
        // Unless it was refused there may be a Pod, which needs the claim.
        if (claim && (statusOf(error) ?? 500) < 500) await this.#deleteClaim(plan.instanceId, options);
        throw error;
      });
      await this.#sealPod(made, options);
      if (claim) await this.#giveClaim(made, options);
    });
    this.#log.info(
      { instance: plan.instanceId, generation: plan.generation, pod: podNameOf(plan.instanceId) },
      "created a Pod",
    );
  }

  async #create(body: V1Pod, plan: ContainerPlan, options: CallOptions): Promise<V1Pod> {
    const { core, namespace } = this.#cluster;
    const made = await ignoring(409, core.createNamespacedPod({ namespace, body }, options));
    // 409: a quota has just changed, or there is a Pod of the name, be it by a call whose reply was lost: the next start replaces it.
    if (!made)
      throw new DriverError("start_failed", "The cluster changed at the same time and created no Pod.", {
        retryable: true,
      });
    requireGeneration(made, plan);
    return made;
  }

  /** A Pod whose agent was killed before this is replaced by the next start. */
  async #sealPod(pod: V1Pod, options: CallOptions): Promise<void> {
    const { core, namespace } = this.#cluster;
    const body = sealingPatch(this.#options.seal, pod);
    await core.patchNamespacedPod({ name: pod.metadata?.name ?? "", namespace, body }, options);
  }

  /** A claim left by an earlier Pod may name other devices. */
  async #createClaim(
    body: NonNullable<ReturnType<typeof claimOfPlan>>,
    id: InstanceId,
    options: CallOptions,
  ): Promise<void> {
    const { resource, namespace } = this.#cluster;
    await this.#deleteClaim(id, options);
    await resource.createNamespacedResourceClaim({ namespace, body }, options);
  }

  /** Deletes the very claim that it saw, unless that is another agent's. */
  async #deleteClaim(id: InstanceId, options: CallOptions): Promise<void> {
    const { resource, namespace } = this.#cluster;
    const name = podNameOf(id);
    const claim = await ignoring(404, resource.readNamespacedResourceClaim({ name, namespace }, options));
    if (!claim || !isOwn(this.#options.hostId, claim.metadata)) return;
    const body = { preconditions: { uid: claim.metadata?.uid ?? "" } };
    await ignoring([404, 409], resource.deleteNamespacedResourceClaim({ name, namespace, body }, options));
  }

  /** Kubernetes removes the claim with its Pod then. */
  async #giveClaim(pod: V1Pod, options: CallOptions): Promise<void> {
    const { resource, namespace } = this.#cluster;
    const { name = "", uid = "" } = pod.metadata ?? {};
    const owner = { apiVersion: "v1", kind: "Pod", name, uid };
    const body = [{ op: "add", path: "/metadata/ownerReferences", value: [owner] }];
    await ignoring(404, resource.patchNamespacedResourceClaim({ name, namespace, body }, options));
  }

  /**
   * With a grace the Pod ends by its deadline and stays, with its exit code and log. Without, or if it never ran, it is deleted. A
   * Pod whose end nobody confirms is an error: it may still run.
   */
  async #stop(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void> {
    const pod = await this.#cluster.call(signal, (options) => this.#own(id, options));
    if (!pod || hasEnded(pod)) return;
    const { name = "", uid = "" } = pod.metadata ?? {};
    const hasRun = pod.status?.containerStatuses?.[0]?.state?.running !== undefined;
    if (graceMs <= 0 || !hasRun || pod.metadata?.deletionTimestamp) return this.#endAndForget(id, pod, signal);
    const body = [
      { op: "test", path: "/metadata/uid", value: uid },
      { op: "add", path: "/spec/activeDeadlineSeconds", value: 1 },
    ];
    const { core, namespace } = this.#cluster;
    await this.#lease.change(signal, (options) =>
      ignoring(404, core.patchNamespacedPod({ name, namespace, body }, options)),
    );
    const limitMs = Math.max(graceMs, graceSeconds * 1000) + stopMarginMs;
    if (!(await this.#until(id, uid, hasEnded, limitMs, signal))) throw unconfirmed(pod);
  }

  async #remove(id: InstanceId, signal: AbortSignal): Promise<void> {
    const pod = await this.#cluster.call(signal, (options) => this.#own(id, options));
    if (pod) await this.#endAndForget(id, pod, signal);
  }

  readonly name = "kubernetes";

  readonly list: ContainerDriver["list"] = async (signal) => {
    const { core, namespace } = this.#cluster;
    // From the server at every look: what a watch has kept may be old, above all right after a change of our own.
    const { items } = await this.#cluster.call(signal, (options) =>
      core.listNamespacedPod({ namespace, labelSelector: this.#selector }, options),
    );
    return Promise.all(
      items.flatMap((pod) => {
        const seen = observePod(pod);
        const observed = seen && !isSealed(this.#options.seal, pod) ? asForeign(seen, pod) : seen;
        return observed ? [this.#listening.check(observed, signal)] : [];
      }),
    );
  };

  /** The node's kubelet pulls, when the Pod is there; `list` says why it waits. */
  readonly pull: ContainerDriver["pull"] = async () => {};

  readonly start: ContainerDriver["start"] = (plan, signal) =>
    this.#inTurn.run(plan.instanceId, signal, async () => {
      try {
        await this.#start(plan, signal);
      } catch (error) {
        const { cause } = error as DriverError;
        if (cause !== undefined)
          this.#log.warn({ instance: plan.instanceId, why: wordsOf(cause) }, "the cluster did not take a Pod");
        throw error;
      }
    });

  readonly stop: ContainerDriver["stop"] = (id, graceMs, signal) =>
    this.#inTurn.run(id, signal, () => this.#stop(id, graceMs, signal));

  readonly remove: ContainerDriver["remove"] = (id, signal) =>
    this.#inTurn.run(id, signal, () => this.#remove(id, signal));

  readonly logs: ContainerDriver["logs"] = async (id, range, signal) => {
    const { core, namespace } = this.#cluster;
    const isTail = range.fromMs === undefined && range.toMs === undefined;
    // Whole if not the last lines: times of the node and of this machine may differ. Kubelets rotate a log at 10 MiB.
    const part = isTail ? { tailLines: range.limit } : {};
    const text = await this.#cluster.call(signal, async (options) => {
      const pod = await this.#own(id, options);
      if (!pod || !isSealed(this.#options.seal, pod)) return undefined;
      const which = { name: podNameOf(id), namespace, container: "server", timestamps: true };
      // 400: nothing has run yet.
      return ignoring([400, 404], core.readNamespacedPodLog({ ...which, ...part }, options));
    });
    return selectLines((text ?? "").split(/\r?\n/), range);
  };

  readonly watch: ContainerDriver["watch"] = (onChange) => {
    this.#listeners.push(onChange);
    if (this.#listeners.length > 1) return;
    const notify = (): void => {
      for (const listener of this.#listeners) listener();
    };
    void followPods(this.#cluster, this.#selector, notify, this.#log, this.#closing.signal);
  };

  readonly close = async () => {
    this.#listeners.length = 0;
    this.#closing.abort();
    await this.#lease
      .release(AbortSignal.timeout(releaseMs))
      .catch((err) => this.#log.warn({ err }, "could not release the lease of this agent"));
  };
}

/** Paths as they are on the node: kubelets follow no link out of a claim. */
async function sourcesOf({ mounts }: ContainerPlan): Promise<ReadonlyMap<string, Source>> {
  const found = mounts.map(async ({ source }) => {
    const path = await realpath(source).catch(() => undefined);
    const facts = path === undefined ? undefined : await stat(path).catch(() => undefined);
    return path !== undefined && facts ? [[source, { path, isFolder: facts.isDirectory() }] as const] : [];
  });
  return new Map((await Promise.all(found)).flat());
}

/** Throws DriverError. */
function requireGeneration(pod: V1Pod, { generation }: ContainerPlan): void {
  if (ownedOf(pod.metadata)?.generation === generation) return;
  throw new DriverError("start_failed", "another generation of the instance still runs", { retryable: true });
}

function unconfirmed({ metadata, spec }: V1Pod): DriverError {
  return new DriverError(
    "engine_away",
    `The node ${spec?.nodeName} has not confirmed the end of the Pod ${metadata?.name}, which may still run: its kubelet does not answer. Repair the node, or remove it from the cluster.`,
    { retryable: true },
  );
}

/** Undefined if the API server replies with one of these: another call was faster, or there is nothing to change. */
async function ignoring<T>(statuses: number | number[], call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if ([statuses].flat().includes(statusOf(error) ?? 0)) return undefined;
    throw error;
  }
}
