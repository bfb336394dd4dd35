// Decides the next steps. Pure. Only instances named by a tombstone and exited containers of a replaced generation are removed;
// an empty, missing or older desired state removes nothing.
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { needsFetch } from "../engines/plan-instance.ts";
import type { Observed } from "./driver.ts";
import type { Facts, View } from "./facts.ts";
import type { Exited } from "./failure.ts";
import { gpuHolder } from "./gpu-claims.ts";
import { troubleOf } from "./health.ts";
import { isAwaited, maySleep, planRest, type Rest, type SleepReason } from "./rest.ts";

type Alive = Exclude<Observed, { state: "exited" }>;
type Running = Extract<Observed, { state: "running" }>;

export type Step =
  | { readonly kind: "fetch"; readonly id: InstanceId; readonly spec: InstanceSpec__Output }
  | { readonly kind: "start"; readonly id: InstanceId; readonly spec: InstanceSpec__Output }
  /** Another instance has its GPU. Retried after a back-off, like a crash. */
  | { readonly kind: "refuse"; readonly id: InstanceId; readonly holder: InstanceId; readonly gpuUuid: string }
  | {
      readonly kind: "probe";
      readonly id: InstanceId;
      readonly seen: Running;
      readonly spec: InstanceSpec__Output | undefined;
    }
  | { readonly kind: "count-exit"; readonly id: InstanceId; readonly seen: Exited; readonly spec: InstanceSpec__Output }
  /** Stops an unhealthy instance; it starts again after a back-off, or never if its start took too long. */
  | {
      readonly kind: "restart";
      readonly id: InstanceId;
      readonly seen: Alive;
      readonly spec: InstanceSpec__Output;
      readonly why: "health" | "start_timeout";
    }
  | {
      readonly kind: "stop";
      readonly id: InstanceId;
      readonly seen: Alive;
      readonly why: "tombstone" | "superseded" | "failed";
    }
  | { readonly kind: "remove"; readonly id: InstanceId; readonly why: "tombstone" | "superseded" }
  /** Gives its memory up; a request wakes it. */
  | {
      readonly kind: "sleep";
      readonly id: InstanceId;
      readonly seen: Running;
      readonly spec: InstanceSpec__Output;
      readonly why: SleepReason;
    }
  | { readonly kind: "wake"; readonly id: InstanceId; readonly seen: Running; readonly spec: InstanceSpec__Output }
  /** Ends the running step: its result is no longer needed. */
  | { readonly kind: "cancel"; readonly id: InstanceId };

/** `rest`: of the same view. */
export function diff(view: View, rest = restOf(view)): readonly Step[] {
  const specs = new Map((view.desired?.instances ?? []).map((spec) => [spec.instanceId as InstanceId, spec]));
  const tombstones = new Set((view.desired?.tombstones ?? []) as InstanceId[]);
  const ids = new Set([...specs.keys(), ...tombstones, ...view.observed.keys()]);
  const begun = new Set<InstanceId>();
  return [...ids].sort().flatMap((id) => {
    const facts = view.facts.get(id);
    if (!facts || view.unsettled.has(id)) return [];
    const seen = view.observed.get(id);
    const spec = specs.get(id);
    if (tombstones.has(id)) return retire(id, seen, facts);
    const wanted = spec && (view.isHeld ? hold(id, facts) : converge(id, spec, seen, facts, view));
    const allowed = wanted?.kind === "start" && rest.lacking.has(id) ? undefined : wanted;
    const next =
      allowed?.kind === "start" ? onFreeGpus(allowed, view, begun) : (allowed ?? restStep(id, spec, seen, rest));
    const probe = seen?.state === "running" && isProbeDue(facts, view.nowMs);
    return [...(next ? [next] : []), ...(probe ? [{ kind: "probe", id, seen, spec } as const] : [])];
  });
}

const noRest: Rest = { sleep: new Map(), wake: new Set(), lacking: new Set() };

/** Sleeps and wakes that are due, and starts and wakes that wait for memory. */
export function restOf(view: View): Rest {
  const specs = new Map((view.desired?.instances ?? []).map((spec) => [spec.instanceId as InstanceId, spec]));
  const isUsed = [...specs.values()].some(maySleep) || [...view.facts.values()].some(({ life }) => life?.isAsleep);
  if (!isUsed || view.isHeld) return noRest;
  const tombstones = new Set((view.desired?.tombstones ?? []) as InstanceId[]);
  const starting = [...specs].flatMap(([id, spec]) => {
    const facts = view.facts.get(id);
    if (!facts || tombstones.has(id) || view.unsettled.has(id)) return [];
    return converge(id, spec, view.observed.get(id), facts, view)?.kind === "start" ? [spec] : [];
  });
  return planRest(view, specs, tombstones, starting);
}

function restStep(
  id: InstanceId,
  spec: InstanceSpec__Output | undefined,
  seen: Observed | undefined,
  rest: Rest,
): Step | undefined {
  if (!spec || seen?.state !== "running") return undefined;
  const why = rest.sleep.get(id);
  if (why) return { kind: "sleep", id, seen, spec, why };
  return rest.wake.has(id) ? { kind: "wake", id, seen, spec } : undefined;
}

/** Returns one container per instance: the running one, otherwise the newest generation. */
export function newestOf(observed: readonly Observed[]): ReadonlyMap<InstanceId, Observed> {
  const rank = (one: Observed) => (one.state === "exited" ? 0 : 1);
  const found = new Map<InstanceId, Observed>();
  for (const one of observed) {
    const other = found.get(one.instanceId);
    if (!other || rank(one) > rank(other) || (rank(one) === rank(other) && one.generation > other.generation))
      found.set(one.instanceId, one);
  }
  return found;
}

/** Steps that take long and whose result a removal or a newer generation does not need. */
const mayCancel = (kind: string) => kind === "fetch" || kind === "sleep" || kind === "wake";

function retire(id: InstanceId, seen: Observed | undefined, facts: Facts): readonly Step[] {
  if (facts.busy) return mayCancel(facts.busy.kind) ? [{ kind: "cancel", id }] : [];
  if (!seen) return [];
  if (seen.state === "exited") return [{ kind: "remove", id, why: "tombstone" }];
  return [{ kind: "stop", id, seen, why: "tombstone" }];
}

/** Refuses a start while another instance has its GPU; delays it while that instance is stopping. */
function onFreeGpus(step: Extract<Step, { kind: "start" }>, view: View, begun: Set<InstanceId>): Step | undefined {
  const holder = gpuHolder(view, step.spec, begun);
  if (!holder) {
    begun.add(step.id);
    return step;
  }
  const { id, gpuUuid, isLeaving } = holder;
  return isLeaving ? undefined : { kind: "refuse", id: step.id, holder: id, gpuUuid };
}

/** Cancels a fetch or start: the instance may run on another host by now, or may no longer be desired. */
function hold(id: InstanceId, { busy }: Facts): Step | undefined {
  return busy?.kind === "fetch" || busy?.kind === "start" ? { kind: "cancel", id } : undefined;
}

function converge(
  id: InstanceId,
  spec: InstanceSpec__Output,
  seen: Observed | undefined,
  facts: Facts,
  { nowMs, controlTimeMs }: Pick<View, "nowMs" | "controlTimeMs">,
): Step | undefined {
  const generation = Number(spec.generation);
  if (facts.busy)
    return mayCancel(facts.busy.kind) && facts.busy.generation < generation ? { kind: "cancel", id } : undefined;
  // Started by a newer desired state than the one we have: leave it unchanged.
  if (seen && seen.generation > generation) return undefined;
  const isCurrent = seen?.generation === generation;
  if (seen && seen.state !== "exited" && isCurrent) return checkCurrent(id, spec, seen, facts, nowMs);
  if (seen?.state === "exited" && isCurrent && facts.countedExit !== seen.identity)
    return { kind: "count-exit", id, seen, spec };
  if (facts.failure || nowMs < facts.notBeforeMs) return undefined;
  // The old one serves while the weights of its successor are downloaded; a failed download does no harm.
  if (needsFetch(spec) && facts.weights.kind !== "here") return { kind: "fetch", id, spec };
  if (seen && seen.state !== "exited") return { kind: "stop", id, seen, why: "superseded" };
  if (seen && !isCurrent) return { kind: "remove", id, why: "superseded" };
  if (facts.isStoppedAsleep && maySleep(spec) && !isAwaited(spec, facts, controlTimeMs)) return undefined;
  return { kind: "start", id, spec };
}

/** Steps for an instance that runs the desired generation. */
function checkCurrent(
  id: InstanceId,
  spec: InstanceSpec__Output,
  seen: Alive,
  facts: Facts,
  nowMs: number,
): Step | undefined {
  if (facts.failure) return { kind: "stop", id, seen, why: "failed" };
  if (facts.life?.identity !== seen.identity) return undefined;
  const kind = spec.engine === "external" ? "external" : spec.engine === "container" ? "rental" : "runtime";
  const why = troubleOf(facts.life, kind, nowMs);
  return why && { kind: "restart", id, seen, spec, why };
}

function isProbeDue(facts: Facts, nowMs: number): boolean {
  if (facts.isProbing || !facts.life || nowMs < facts.life.nextProbeMs) return false;
  return facts.busy === undefined || facts.busy.kind === "fetch";
}
