// What a drain of a host would move, where to, and what cannot move: asked of the code that would do it. Nothing is changed.
import { type DeploymentId, type HostId, randomId } from "../../proto/ids.ts";
import { type InstancePhase, isServing } from "../../proto/instance-phase.ts";
import type { HostState, HostView } from "../fleet/host.ts";
import type { HostOperationStore, Occupant } from "../fleet/store.ts";
import { type Choice, createHostChooser, type PlaceRequest } from "./choose-hosts.ts";
import { decide } from "./decide.ts";
import type { Instance, PendingReason } from "./deployment.ts";
import type { Active, DeploymentStore, ReserveStore } from "./store.ts";

/**
 * `moves`: a replacement starts elsewhere before it stops. `stops`: its deployment needs no replacement. `stays`: its data is on the
 * host's disk. `waits`: no other host can take it now; it serves until the deadline and stops then.
 */
export const drainOutcomes = ["moves", "stops", "stays", "waits"] as const;
export type DrainOutcome = (typeof drainOutcomes)[number];

export interface DrainedInstance extends Occupant {
  readonly phase: InstancePhase;
  readonly outcome: DrainOutcome;
  /** Host of its replacement, where it moves. */
  readonly to: { readonly id: HostId; readonly hostname: string } | undefined;
  /** Why no other host can take it, where it waits. */
  readonly reasons: readonly PendingReason[];
  /** Serving instances of its deployment on other hosts. */
  readonly servingElsewhere: number;
}

/** Previews what happens to a host's instances, by deployment. */
export type PreviewDrain = (host: HostId) => Promise<readonly DrainedInstance[]>;

interface PreviewDeps {
  readonly placed: HostOperationStore["placed"];
  readonly active: DeploymentStore["active"];
  readonly snapshot: () => Promise<readonly HostView[]>;
  readonly reserves: ReserveStore;
  readonly nowMs: () => number;
}

export function createDrainPreview(deps: PreviewDeps): PreviewDrain {
  return async (id) => {
    const occupants = (await deps.placed()).filter(({ hostId }) => hostId === id);
    if (occupants.length === 0) return [];
    const hosts = (await deps.snapshot()).map((host) => (host.id === id ? drained(host) : host));
    const states = new Map(hosts.map((host) => [host.id, host.state]));
    const hostState = (host: HostId): HostState => (host === id ? "live" : (states.get(host) ?? "lost"));
    const active = await deps.active([...new Set(occupants.map(({ deployId }) => deployId))]);
    const needs = active.map((one) => ({ ...one, count: replacements(one, id, hostState, deps.nowMs()) }));
    const requests = needs.map(
      ({ deployment, instances, count }): PlaceRequest => ({
        deployment,
        instances: instances.filter(({ hostId }) => hostId !== id),
        count,
      }),
    );
    // Its own, because choices are tried in the fleet that a chooser remembers.
    const chooser = createHostChooser({
      snapshot: async () => hosts,
      hostState,
      reserves: deps.reserves,
      isForOperators: true,
      monotonicMs: () => 0,
      resyncMs: Number.POSITIVE_INFINITY,
    });
    const choices = await chooser.choose(requests);
    const plans = new Map(
      needs.map((need, at): [DeploymentId, Plan] => [need.deployment.id, { need, choice: choices[at] as Choice }]),
    );
    const byDeployment = [...Map.groupBy(occupants, ({ deployId }) => deployId)];
    return byDeployment.flatMap(([deployment, here]) => outcomes(here, plans.get(deployment), id, hosts));
  };
}

interface Plan {
  readonly need: Active & { readonly count: number };
  readonly choice: Choice;
}

/** The host as placement sees it once it is drained. */
const drained = (host: HostView): HostView => ({
  ...host,
  schedulable: false,
  condition: "it would be drained; there is no other host",
});

/** `plan` is undefined if the deployment ended in the meantime. */
function outcomes(
  occupants: readonly Occupant[],
  plan: Plan | undefined,
  host: HostId,
  hosts: readonly HostView[],
): readonly DrainedInstance[] {
  const known = new Map((plan?.need.instances ?? []).map((one) => [one.id, one]));
  const others = [...known.values()].filter((one) => one.hostId !== host && !one.isTombstoned);
  const servingElsewhere = others.filter(({ phase }) => isServing(phase)).length;
  const names = new Map(hosts.map((one) => [one.id, one.hostname]));
  const placements = [...(plan?.choice.placements ?? [])];
  const reasons = reasonsOf(plan?.choice.reasons ?? [], names.get(host));
  let needed = plan?.need.count ?? 0;
  const phaseOf = ({ id }: Occupant) => known.get(id)?.phase ?? "pending";
  // Those that serve are the ones to replace.
  const serving = (one: Occupant) => Number(isServing(phaseOf(one)));
  return occupants
    .toSorted((a, b) => serving(b) - serving(a))
    .map((one): DrainedInstance => {
      const base = { ...one, phase: phaseOf(one), to: undefined, reasons: [], servingElsewhere };
      if (!one.isMovable) return { ...base, outcome: "stays" };
      if (needed === 0) return { ...base, outcome: "stops" };
      needed -= 1;
      const to = placements.shift()?.hostId;
      return to === undefined
        ? { ...base, outcome: "waits", reasons }
        : { ...base, outcome: "moves", to: { id: to, hostname: names.get(to) ?? to } };
    });
}

/** That the host itself is left out is a reason only where there is no other. */
function reasonsOf(reasons: readonly PendingReason[], hostname: string | undefined): readonly PendingReason[] {
  const others = reasons.filter(({ host }) => host !== hostname);
  return others.length > 0 ? others : reasons;
}

/** Instances that the controller would place until nothing serves on the host: its own decisions, with each placement successful. */
function replacements(
  { deployment, instances: found }: Active,
  host: HostId,
  hostState: (host: HostId) => HostState,
  nowMs: number,
): number {
  if (deployment.kind !== "model") return 0;
  const leaving = { dueAtMs: new Map([[host, Number.POSITIVE_INFINITY]]), gpus: new Map() };
  let instances: readonly Instance[] = found.filter(({ isTombstoned }) => !isTombstoned);
  let count = 0;
  // Each round places or ends at least one.
  for (let rounds = 2 * (instances.length + deployment.maxInstances); rounds > 0; rounds -= 1) {
    const { plan } = decide(deployment, instances, { hostState: otherHosts(hostState), leaving, nowMs });
    if (plan.place === 0 && plan.tombstone.length === 0) break;
    count += plan.place;
    const made = Array.from({ length: plan.place }, () => successor(found[0] as Instance, deployment.spec));
    instances = [...instances.filter(({ id }) => !plan.tombstone.includes(id)), ...made];
  }
  return count;
}

const elsewhere = "elsewhere" as HostId;
const otherHosts = (hostState: (host: HostId) => HostState) => (host: HostId) =>
  host === elsewhere ? "live" : hostState(host);

/** One that serves on another host. */
const successor = (of: Instance, spec: number): Instance => ({
  ...of,
  id: randomId<"instance">(16),
  hostId: elsewhere,
  spec,
  observedGeneration: of.generation,
  phase: "ready",
  gpuUuids: [],
});
