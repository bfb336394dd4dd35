// Next step of one deployment, from its row, its instances and the state of their hosts. Pure.
import type { HostId, InstanceId } from "../../proto/ids.ts";
import type { HostState } from "../fleet/host.ts";
import type { Deployment, Instance, Leaving, PlacedInstance } from "./deployment.ts";
import { type Outcome, statusAfter, targetOf } from "./lifecycle.ts";
import { type Plan, planInstances, replacementsAt } from "./plan.ts";
import type { Verdict } from "./store.ts";

/** Hosts and GPUs that instances must leave. */
export interface Departures {
  /** Unix ms from which an instance stops, replaced or not. */
  readonly dueAtMs: ReadonlyMap<HostId, number>;
  readonly gpus: FaultyGpus;
}

export type FaultyGpus = ReadonlyMap<HostId, ReadonlySet<string>>;

/** Requests at each instance. */
export type Loads = ReadonlyMap<InstanceId, number>;

export const noLoads: Loads = new Map();

interface Facts {
  readonly hostState: (host: HostId) => HostState;
  readonly leaving: Departures;
  readonly loads?: Loads;
  /** Unix ms. */
  readonly nowMs: number;
}

interface Decision {
  readonly placed: readonly PlacedInstance[];
  readonly outcome: Outcome;
  readonly plan: Plan;
  readonly replacements: number | undefined;
}

export function decide(deployment: Deployment, instances: readonly Instance[], facts: Facts): Decision {
  const { hostState, leaving, loads = noLoads, nowMs } = facts;
  // Data on one host's disk cannot move: wait for the host.
  const isMovable = deployment.kind === "model";
  const placed: PlacedInstance[] = instances.map((instance) => ({
    ...instance,
    isHostLost: isMovable && hostState(instance.hostId) === "lost",
    leaving: isMovable ? leavingOf(instance, leaving, nowMs) : undefined,
    load: loads.get(instance.id),
  }));
  const target = targetOf(deployment);
  const outcome = statusAfter({ ...deployment, target }, placed);
  const { count, isDue } = replacementsAt(deployment, nowMs);
  const plan = planInstances({ ...outcome, target, mayReplace: isDue }, placed);
  return { placed, outcome, plan, replacements: plan.replaced > 0 ? count + plan.replaced : undefined };
}

function leavingOf({ hostId, gpuUuids }: Instance, { dueAtMs, gpus }: Departures, nowMs: number): Leaving | undefined {
  const atMs = dueAtMs.get(hostId);
  if (atMs !== undefined) return atMs > nowMs ? "moving" : "due";
  return gpuUuids.some((uuid) => gpus.get(hostId)?.has(uuid)) ? "moving" : undefined;
}

export const isSame = (deployment: Deployment, outcome: Outcome) =>
  deployment.status === outcome.status &&
  deployment.failReason === outcome.failReason &&
  deployment.spec === outcome.spec &&
  deployment.servingSpec === outcome.servingSpec &&
  deployment.updateError === outcome.updateError;

/** Returns whether a verdict changes anything. */
export function isNews(deployment: Deployment, verdict: Verdict): boolean {
  const { tombstones, placements, revised, pendingReasons } = verdict;
  if (!isSame(deployment, verdict) || tombstones.length + placements.length + revised.length > 0) return true;
  // Compare by field: a jsonb column does not preserve the order of keys.
  const known = deployment.pendingReasons;
  return (
    pendingReasons.length !== known.length ||
    pendingReasons.some(({ host, why }, i) => host !== known[i]?.host || why !== known[i]?.why)
  );
}
