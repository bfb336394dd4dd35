// The loop that brings deployments to what was asked: look, decide, claim, place, write. Woken by pushed changes; every few
// seconds it looks at everything anyway. Several replicas run it at once: a claim keeps two from working on one deployment,
// revisions keep two placements from meeting on one GPU.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { type DeploymentId, type InstanceId, randomId } from "../../proto/ids.ts";
import type { HostState, HostView } from "../fleet/host.ts";
import type { Deployment, Instance, PendingReason, PlacedInstance } from "./deployment.ts";
import { type Outcome, statusAfter, targetOf } from "./lifecycle.ts";
import { place } from "./place.ts";
import { type Plan, planInstances } from "./plan.ts";
import type { Claimed, DeploymentStore, NewInstance } from "./store.ts";

export interface Controller {
  /** A deployment, or what it could be placed on, changed. */
  wake(): void;
  run(signal: AbortSignal): Promise<void>;
  /** One pass over everything; returns how many deployments it moved. */
  pass(): Promise<number>;
}

export interface Transition {
  readonly from: string;
  readonly to: string;
  readonly seconds: number;
}

const claimTtlMs = 30_000;
const resyncMs = 5_000;
/** A lost race is looked at again at once, but not for ever. */
const maxTries = 4;

export function createController(deps: {
  readonly store: DeploymentStore;
  readonly snapshot: () => Promise<readonly HostView[]>;
  readonly hostState: (host: Instance["hostId"]) => HostState;
  readonly owner: string;
  readonly log: Logger;
  readonly onTransition?: (transition: Transition) => void;
  readonly resyncMs?: number;
}): Controller {
  const { store, log } = deps;
  let isWanted = true;
  let wakeUp = () => {};

  const decide = (deployment: Deployment, instances: readonly Instance[]): { outcome: Outcome; plan: Plan } => {
    const placed: PlacedInstance[] = instances.map((instance) => ({
      ...instance,
      // What lives on one host's disk cannot go on elsewhere: it waits for its host.
      isHostLost: deployment.kind === "model" && deps.hostState(instance.hostId) === "lost",
    }));
    const target = targetOf(deployment);
    const outcome = statusAfter({ ...deployment, target }, placed);
    return { outcome, plan: planInstances({ status: outcome.status, target }, placed) };
  };

  async function work(id: DeploymentId): Promise<boolean> {
    for (let attempt = 1; attempt <= maxTries; attempt++) {
      const claimed = await store.claim(id, deps.owner, claimTtlMs);
      if (!claimed) return false;
      const isWritten = await settle(claimed);
      if (isWritten !== "lost-race") return isWritten;
    }
    log.info({ deployment: id }, "another controller moved the hosts meanwhile; the next pass looks again");
    return false;
  }

  async function settle(claimed: Claimed): Promise<boolean | "lost-race"> {
    const { deployment } = claimed;
    try {
      const { outcome, plan } = decide(deployment, claimed.instances);
      const { placements, reasons } =
        plan.place > 0 ? await choose(deployment, plan.place) : { placements: [], reasons: [] };
      if (!isNews(deployment, outcome, plan.tombstone, placements, reasons)) {
        await store.release(claimed);
        return false;
      }
      const verdict = { ...outcome, pendingReasons: reasons, placements, tombstones: plan.tombstone };
      if (!(await store.commit(claimed, verdict))) {
        await store.release(claimed);
        return "lost-race";
      }
      tell(deployment, outcome, placements, plan.tombstone);
      return true;
    } catch (error) {
      await store.release(claimed).catch(() => {});
      throw error;
    }
  }

  /** Places one after the other, each seeing the claims of those before it. */
  async function choose(
    deployment: Deployment,
    count: number,
  ): Promise<{ placements: NewInstance[]; reasons: readonly PendingReason[] }> {
    let hosts = await deps.snapshot();
    const placements: NewInstance[] = [];
    for (let index = 0; index < count; index++) {
      const want = {
        gpu: deployment.gpu,
        gpusPerInstance: deployment.numGpus,
        memoryBytes: deployment.memoryBytes,
        engine: deployment.engine,
        host: deployment.weights.host,
        rentalImage: deployment.container?.image,
      };
      const found = place(want, hosts);
      if (!found.ok) {
        const none = [{ host: "", why: "no host is connected; start an agent" }];
        return { placements, reasons: found.rejections.length > 0 ? found.rejections : none };
      }
      const claims = found.gpus.map((gpu) => ({ gpuUuid: gpu.uuid, account: deployment.account }));
      hosts = hosts.map((host) => (host.id === found.host ? { ...host, claims: [...host.claims, ...claims] } : host));
      placements.push({
        id: randomId<"instance">(16),
        hostId: found.host,
        hostRevision: found.revision,
        gpus: found.gpus.map((gpu) => ({ uuid: gpu.uuid, memoryBytes: gpu.memoryBytes })),
      });
    }
    return { placements, reasons: [] };
  }

  function tell(
    deployment: Deployment,
    outcome: Outcome,
    placements: readonly NewInstance[],
    tombstones: readonly InstanceId[],
  ): void {
    const hosts = placements.map((placement) => placement.hostId);
    const facts = { deployment: deployment.id, from: deployment.status, to: outcome.status, hosts, tombstones };
    log.info(outcome.failReason ? { ...facts, failReason: outcome.failReason } : facts, "deployment moved");
    if (deployment.status === outcome.status) return;
    const seconds = Math.max(0, Date.now() - deployment.updatedAtMs) / 1000;
    deps.onTransition?.({ from: deployment.status, to: outcome.status, seconds });
  }

  async function pass(): Promise<number> {
    let moved = 0;
    for (const { deployment, instances } of await store.active(undefined)) {
      const { outcome, plan } = decide(deployment, instances);
      // Most have nothing to do: they cost no claim.
      if (plan.place === 0 && plan.tombstone.length === 0 && isSame(deployment, outcome)) continue;
      if (await work(deployment.id)) moved += 1;
    }
    return moved;
  }

  return {
    pass,
    wake() {
      isWanted = true;
      wakeUp();
    },
    async run(signal) {
      while (!signal.aborted) {
        const timer = new AbortController();
        const woken = new Promise<void>((resolve) => {
          wakeUp = resolve;
        });
        isWanted = false;
        try {
          await pass();
        } catch (error) {
          log.warn({ err: error }, "the deployment controller could not finish a pass; it tries again");
          await wait(500, undefined, { signal }).catch(() => {});
        }
        if (isWanted) continue;
        const end = AbortSignal.any([signal, timer.signal]);
        await Promise.race([woken, wait(deps.resyncMs ?? resyncMs, undefined, { signal: end }).catch(() => {})]);
        timer.abort();
      }
    },
  };
}

const isSame = (deployment: Deployment, outcome: Outcome) =>
  deployment.status === outcome.status && deployment.failReason === outcome.failReason;

function isNews(
  deployment: Deployment,
  outcome: Outcome,
  tombstones: readonly InstanceId[],
  placements: readonly NewInstance[],
  reasons: readonly PendingReason[],
): boolean {
  if (!isSame(deployment, outcome) || tombstones.length > 0 || placements.length > 0) return true;
  // By field: a jsonb column gives its keys back in an order of its own.
  const known = deployment.pendingReasons;
  return (
    reasons.length !== known.length ||
    reasons.some(({ host, why }, i) => host !== known[i]?.host || why !== known[i]?.why)
  );
}
