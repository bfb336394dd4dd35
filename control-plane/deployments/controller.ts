// The loop that brings deployments to what was asked: look, decide, claim, place, write. Woken by pushed changes; every few
// seconds it looks at everything anyway. Several replicas run it at once: a claim keeps two from working on one deployment,
// revisions keep two placements from meeting on one GPU.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { HostState } from "../fleet/host.ts";
import type { HostChooser } from "./choose-hosts.ts";
import type { Deployment, Instance, Leaving, PlacedInstance } from "./deployment.ts";
import { type Outcome, statusAfter, targetOf } from "./lifecycle.ts";
import { type Plan, planInstances, replacementsAt } from "./plan.ts";
import type { Claimed, DeploymentStore, Verdict } from "./store.ts";

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
  readonly hosts: HostChooser;
  readonly hostState: (host: Instance["hostId"]) => HostState;
  readonly owner: string;
  readonly log: Logger;
  /** Hosts that are being emptied; read once per pass. */
  readonly leaving?: () => Promise<ReadonlyMap<HostId, Leaving>>;
  /** GPUs with a fault: what serves on one is replaced elsewhere before it goes. Read once per pass. */
  readonly faultyGpus?: () => Promise<FaultyGpus>;
  /** Requests at the instances of these hosts. */
  readonly loads?: (hosts: readonly HostId[]) => Promise<Loads>;
  readonly onTransition?: (transition: Transition) => void;
  readonly resyncMs?: number;
  /** Unix ms. */
  readonly unixMs?: () => number;
}): Controller {
  const { store, log } = deps;
  let isWanted = true;
  let wakeUp = () => {};
  const unixMs = deps.unixMs ?? Date.now;

  const decide = (
    deployment: Deployment,
    instances: readonly Instance[],
    leaving: WhatLeaves,
    loads: Loads = noLoads,
  ): Decision => {
    // What lives on one host's disk cannot go on elsewhere: it waits for its host.
    const isMovable = deployment.kind === "model";
    const placed: PlacedInstance[] = instances.map((instance) => ({
      ...instance,
      isHostLost: isMovable && deps.hostState(instance.hostId) === "lost",
      leaving: isMovable ? leavingOf(instance, leaving) : undefined,
      load: loads.get(instance.id),
    }));
    const target = targetOf(deployment);
    const outcome = statusAfter({ ...deployment, target }, placed);
    const { count, isDue } = replacementsAt(deployment, unixMs());
    const plan = planInstances({ ...outcome, target, mayReplace: isDue }, placed);
    return { outcome, plan, replacements: plan.replaced > 0 ? count + plan.replaced : undefined };
  };

  async function work(id: DeploymentId, leaving: WhatLeaves): Promise<boolean> {
    for (let attempt = 1; attempt <= maxTries; attempt++) {
      const claimed = await store.claim(id, deps.owner, claimTtlMs);
      if (!claimed) return false;
      const isWritten = await settle(claimed, leaving);
      if (isWritten !== "lost-race") return isWritten;
    }
    log.info({ deployment: id }, "another controller moved the hosts meanwhile; the next pass looks again");
    return false;
  }

  /** Read only where one of several that serve is to go: the others have no need of it. */
  async function loadsFor({ deployment, instances }: Claimed, leaving: WhatLeaves): Promise<Loads> {
    const serving = instances.filter(({ phase, isTombstoned }) => phase === "ready" && !isTombstoned);
    const { plan } = decide(deployment, instances, leaving);
    const isChoice = serving.length > 1 && (plan.tombstone.length > 0 || plan.inPlace !== undefined);
    if (!deps.loads || !isChoice) return noLoads;
    return deps.loads([...new Set(serving.map(({ hostId }) => hostId))]);
  }

  async function settle(claimed: Claimed, leaving: WhatLeaves): Promise<boolean | "lost-race"> {
    const { deployment } = claimed;
    try {
      const loads = await loadsFor(claimed, leaving);
      const { outcome, plan, replacements } = decide(deployment, claimed.instances, leaving, loads);
      const chosen =
        plan.place > 0
          ? await deps.hosts.choose(deployment, claimed.instances, plan.place)
          : { placements: [], reasons: [], reserve: undefined, sharing: undefined };
      // No room beside the old one: it gives its own, and does not serve until it has started anew.
      const isInPlace = chosen.placements.length === 0 && plan.inPlace !== undefined;
      const revised = isInPlace ? [plan.inPlace as InstanceId] : plan.revise;
      const verdict: Verdict = {
        ...outcome,
        pendingReasons: isInPlace ? [] : chosen.reasons,
        placements: chosen.placements,
        reserve: chosen.placements.length > 0 ? chosen.reserve : undefined,
        sharing: chosen.sharing,
        tombstones: plan.tombstone,
        revised,
        replacements,
      };
      if (!isNews(deployment, verdict)) {
        await store.release(claimed);
        return false;
      }
      if (!(await store.commit(claimed, verdict))) {
        for (const { hostId } of chosen.placements) deps.hosts.changed(hostId);
        await store.release(claimed);
        return "lost-race";
      }
      deps.hosts.placed(deployment, chosen.placements);
      tell(deployment, verdict, isInPlace);
      return true;
    } catch (error) {
      await store.release(claimed).catch(() => {});
      throw error;
    }
  }

  function tell(deployment: Deployment, verdict: Verdict, isInPlace: boolean): void {
    const { status, failReason, updateError, placements, tombstones, revised } = verdict;
    const hosts = placements.map((placement) => placement.hostId);
    const facts = { deployment: deployment.id, from: deployment.status, to: status, hosts, tombstones, revised };
    log.info(failReason ? { ...facts, failReason } : facts, "deployment moved");
    if (isInPlace) log.info({ deployment: deployment.id, revised }, "no room beside it: updated in place, with a gap");
    if (verdict.spec !== deployment.spec)
      log.warn(
        { deployment: deployment.id, updateError },
        "the update did not come up; what ran before is wanted again",
      );
    if (deployment.status === status) return;
    const seconds = Math.max(0, unixMs() - deployment.updatedAtMs) / 1000;
    deps.onTransition?.({ from: deployment.status, to: status, seconds });
  }

  async function pass(): Promise<number> {
    let moved = 0;
    const leaving = {
      hosts: (await deps.leaving?.()) ?? nobodyLeaves.hosts,
      gpus: (await deps.faultyGpus?.()) ?? nobodyLeaves.gpus,
    };
    for (const { deployment, instances } of await store.active(undefined)) {
      const { outcome, plan } = decide(deployment, instances, leaving);
      // Most have nothing to do: they cost no claim.
      const isIdle = plan.place === 0 && plan.tombstone.length === 0 && plan.revise.length === 0;
      if (isIdle && deployment.pendingReasons.length === 0 && isSame(deployment, outcome)) continue;
      if (await work(deployment.id, leaving)) moved += 1;
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

interface WhatLeaves {
  readonly hosts: ReadonlyMap<HostId, Leaving>;
  readonly gpus: FaultyGpus;
}

type FaultyGpus = ReadonlyMap<HostId, ReadonlySet<string>>;

const nobodyLeaves: WhatLeaves = { hosts: new Map(), gpus: new Map() };

const leavingOf = ({ hostId, gpuUuids }: Instance, { hosts, gpus }: WhatLeaves): Leaving | undefined =>
  hosts.get(hostId) ?? (gpuUuids.some((uuid) => gpus.get(hostId)?.has(uuid)) ? "moving" : undefined);

type Loads = ReadonlyMap<InstanceId, number>;

const noLoads: Loads = new Map();

interface Decision {
  readonly outcome: Outcome;
  readonly plan: Plan;
  readonly replacements: number | undefined;
}

const isSame = (deployment: Deployment, outcome: Outcome) =>
  deployment.status === outcome.status &&
  deployment.failReason === outcome.failReason &&
  deployment.spec === outcome.spec &&
  deployment.servingSpec === outcome.servingSpec &&
  deployment.updateError === outcome.updateError;

function isNews(deployment: Deployment, verdict: Verdict): boolean {
  const { tombstones, placements, revised, pendingReasons } = verdict;
  if (!isSame(deployment, verdict) || tombstones.length + placements.length + revised.length > 0) return true;
  // By field: a jsonb column gives its keys back in an order of its own.
  const known = deployment.pendingReasons;
  return (
    pendingReasons.length !== known.length ||
    pendingReasons.some(({ host, why }, i) => host !== known[i]?.host || why !== known[i]?.why)
  );
}
