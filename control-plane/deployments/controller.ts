// Loop that converges deployments to their desired state: read, decide, claim, place, write. Woken by changes and by timers
// of single deployments; also polls everything every few seconds. Several replicas run it concurrently: claims serialise
// work on a deployment, revisions prevent two placements on one GPU.
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import type { HostState } from "../fleet/host.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { HostChooser } from "./choose-hosts.ts";
import type { Deployment, Instance, Leaving, PlacedInstance } from "./deployment.ts";
import { type Outcome, statusAfter, targetOf } from "./lifecycle.ts";
import { type Plan, planInstances, replacementsAt } from "./plan.ts";
import type { Active, Claimed, DeploymentStore, Verdict } from "./store.ts";
import { type HostTimes, nextDueMs, type Timer, type Timers } from "./timers.ts";

interface Controller {
  /** A deployment, or what it could be placed on, changed. */
  wake(): void;
  run(signal: AbortSignal): Promise<void>;
  /** One pass over all deployments; returns how many it changed. */
  pass(): Promise<number>;
  /** The same for one deployment. Throws when a step failed and should be retried. */
  check(id: DeploymentId): Promise<void>;
}

export interface Transition {
  readonly from: string;
  readonly to: string;
  readonly seconds: number;
}

const claimTtlMs = 30_000;
const resyncMs = 5_000;
/** A lost race is retried at once, up to this often. */
const maxTries = 4;
/** Timers are set for events due within this many polls; later ones may change before. */
const pollsAhead = 3;
/** Maximum timers set per poll, the soonest first. */
const maxTimers = 500;

export function createController(deps: {
  readonly store: Pick<DeploymentStore, "active" | "claim" | "commit" | "release">;
  readonly hosts: HostChooser;
  readonly hostState: (host: Instance["hostId"]) => HostState;
  readonly owner: string;
  readonly log: Logger;
  /** Hosts that are being drained, with the ms left; read once per pass. */
  readonly leaving?: () => Promise<ReadonlyMap<HostId, number>>;
  /** GPUs with a fault: an instance on one is replaced elsewhere before it stops. Read once per pass. */
  readonly faultyGpus?: () => Promise<FaultyGpus>;
  /** Returns the requests at the instances of these hosts. */
  readonly loads?: (hosts: readonly HostId[]) => Promise<Loads>;
  readonly onTransition?: (transition: Transition) => void;
  /** Wake the controller when an event is due, and after a failed step; without timers the next poll finds both. */
  readonly timers?: Pick<Timers, "add">;
  /** Ms until a silent host counts as lost; undefined: it is not silent, or already lost. */
  readonly untilLostMs?: HostTimes["untilLostMs"];
  readonly resyncMs?: number;
  /** Unix ms. */
  readonly unixMs?: () => number;
}): Controller {
  const { store, log } = deps;
  let isWanted = true;
  let wakeUp = () => {};
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
  const everyMs = deps.resyncMs ?? resyncMs;

  const decide = (
    deployment: Deployment,
    instances: readonly Instance[],
    leaving: Departures,
    loads: Loads = noLoads,
  ): Decision => {
    // Data on one host's disk cannot move: wait for the host.
    const isMovable = deployment.kind === "model";
    const placed: PlacedInstance[] = instances.map((instance) => ({
      ...instance,
      isHostLost: isMovable && deps.hostState(instance.hostId) === "lost",
      leaving: isMovable ? leavingOf(instance, leaving, unixMs()) : undefined,
      load: loads.get(instance.id),
    }));
    const target = targetOf(deployment);
    const outcome = statusAfter({ ...deployment, target }, placed);
    const { count, isDue } = replacementsAt(deployment, unixMs());
    const plan = planInstances({ ...outcome, target, mayReplace: isDue }, placed);
    return { placed, outcome, plan, replacements: plan.replaced > 0 ? count + plan.replaced : undefined };
  };

  async function work(id: DeploymentId, leaving: Departures): Promise<boolean | "held"> {
    for (let attempt = 1; attempt <= maxTries; attempt++) {
      const claimed = await store.claim(id, deps.owner, claimTtlMs);
      if (!claimed) return "held";
      const isWritten = await settle(claimed, leaving);
      if (isWritten !== "lost-race") return isWritten;
    }
    throw new RacesLost("lost every race against other controllers");
  }

  /** Read only when one of several serving instances must stop. */
  async function loadsFor({ deployment, instances }: Claimed, leaving: Departures): Promise<Loads> {
    const serving = instances.filter(({ phase, isTombstoned }) => phase === "ready" && !isTombstoned);
    const { plan } = decide(deployment, instances, leaving);
    const isChoice = serving.length > 1 && (plan.tombstone.length > 0 || plan.inPlace !== undefined);
    if (!deps.loads || !isChoice) return noLoads;
    return deps.loads([...new Set(serving.map(({ hostId }) => hostId))]);
  }

  async function settle(claimed: Claimed, leaving: Departures): Promise<boolean | "lost-race"> {
    const { deployment } = claimed;
    try {
      const loads = await loadsFor(claimed, leaving);
      const { outcome, plan, replacements } = decide(deployment, claimed.instances, leaving, loads);
      const chosen =
        plan.place > 0
          ? await deps.hosts.choose(deployment, claimed.instances, plan.place)
          : { placements: [], reasons: [], reserve: undefined, sharing: undefined };
      // No capacity for a second instance: replace the old one in place, with a gap in service. If its GPUs could not hold
      // the new one either, it keeps serving.
      const changeable = claimed.instances.find(({ id }) => id === plan.inPlace);
      const isInPlace =
        chosen.placements.length === 0 && changeable !== undefined && deps.hosts.holds(deployment, changeable);
      const revised = isInPlace ? [changeable.id] : plan.revise;
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
      report(deployment, verdict, isInPlace);
      return true;
    } catch (error) {
      await store.release(claimed).catch(() => {});
      throw error;
    }
  }

  function report(deployment: Deployment, verdict: Verdict, isInPlace: boolean): void {
    const { status, failReason, updateError, placements, tombstones, revised } = verdict;
    const hosts = placements.map((placement) => placement.hostId);
    const facts = { deployment: deployment.id, from: deployment.status, to: status, hosts, tombstones, revised };
    log.info(failReason ? { ...facts, failReason } : facts, "deployment moved");
    if (isInPlace)
      log.info(
        { deployment: deployment.id, revised },
        "no capacity for a second instance: updated in place, with a gap",
      );
    if (verdict.spec !== deployment.spec)
      log.warn(
        { deployment: deployment.id, updateError },
        "update failed to start; reverted to the previous specification",
      );
    if (deployment.status === status) return;
    const seconds = Math.max(0, unixMs() - deployment.updatedAtMs) / 1000;
    deps.onTransition?.({ from: deployment.status, to: status, seconds });
  }

  async function step({ deployment, instances, claimedUntilMs }: Active, leaving: Departures): Promise<Checked> {
    const { placed, outcome, plan } = decide(deployment, instances, leaving);
    const nowMs = unixMs();
    const untilDueMs = (host: HostId) => {
      const dueAtMs = leaving.dueAtMs.get(host);
      return dueAtMs === undefined ? undefined : dueAtMs - nowMs;
    };
    const times = { untilLostMs: deps.untilLostMs ?? never, untilDueMs };
    const dueMs = nextDueMs(deployment, placed, times, nowMs);
    const isQuiet = plan.place === 0 && plan.tombstone.length === 0 && plan.revise.length === 0;
    // Most deployments have nothing to do and cost no claim.
    const isIdle = isQuiet && deployment.pendingReasons.length === 0 && isSame(deployment, outcome);
    const moved = !isIdle && (await work(deployment.id, leaving));
    // The holder may have died: its work is done when the claim expires.
    const heldUntilMs = moved === "held" && claimedUntilMs > nowMs ? [claimedUntilMs] : [];
    const atMs = Math.min(...heldUntilMs, dueMs ?? Number.POSITIVE_INFINITY);
    const isSoon = atMs - nowMs <= pollsAhead * everyMs;
    const timer: Timer | undefined = isSoon ? { id: deployment.id, kind: "due", atMs } : undefined;
    return { isMoved: moved === true, isIdle, timer };
  }

  async function departures(): Promise<Departures> {
    const dueInMs = (await deps.leaving?.()) ?? new Map<HostId, number>();
    // Converted to absolute times where they are read: a pass may take seconds.
    const nowMs = unixMs();
    const dueAtMs = new Map([...dueInMs].map(([host, ms]) => [host, nowMs + ms]));
    return { dueAtMs, gpus: (await deps.faultyGpus?.()) ?? new Map() };
  }

  function setTimers(timers: readonly Timer[]): void {
    const first = timers.length > maxTimers ? timers.toSorted((a, b) => a.atMs - b.atMs) : timers;
    if (first.length > 0) deps.timers?.add(first.slice(0, maxTimers));
  }

  const checkAll = createCheckAll<Departures>({
    active: () => store.active(undefined),
    step,
    setTimers,
    log,
    unixMs,
  });
  const pass = async () => checkAll(await departures());

  async function check(id: DeploymentId): Promise<void> {
    const [one] = await store.active([id]);
    if (!one) return;
    const { timer } = await step(one, await departures());
    if (timer) setTimers([timer]);
  }

  let last: Promise<unknown> = Promise.resolve();
  /** One pass at a time: concurrent passes would place on the same capacity and undo each other's work. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = last.then(work);
    last = mine.catch(() => {});
    return mine;
  }

  return {
    pass: () => inTurn(pass),
    check: (id) => inTurn(() => check(id)),
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
          await inTurn(pass);
        } catch (error) {
          log.warn({ err: error }, "deployment controller pass failed; will retry");
          await wait(500, undefined, { signal }).catch(() => {});
        }
        if (isWanted) continue;
        const end = AbortSignal.any([signal, timer.signal]);
        await Promise.race([woken, wait(everyMs, undefined, { signal: end }).catch(() => {})]);
        timer.abort();
      }
    },
  };
}

/** Hosts and GPUs that instances must leave. */
interface Departures {
  /** Unix ms from which an instance stops, replaced or not. */
  readonly dueAtMs: ReadonlyMap<HostId, number>;
  readonly gpus: FaultyGpus;
}

type FaultyGpus = ReadonlyMap<HostId, ReadonlySet<string>>;

const never = () => undefined;

function leavingOf({ hostId, gpuUuids }: Instance, { dueAtMs, gpus }: Departures, nowMs: number): Leaving | undefined {
  const atMs = dueAtMs.get(hostId);
  if (atMs !== undefined) return atMs > nowMs ? "moving" : "due";
  return gpuUuids.some((uuid) => gpus.get(hostId)?.has(uuid)) ? "moving" : undefined;
}

type Loads = ReadonlyMap<InstanceId, number>;

const noLoads: Loads = new Map();

interface Decision {
  readonly placed: readonly PlacedInstance[];
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
  // Compare by field: a jsonb column does not preserve the order of keys.
  const known = deployment.pendingReasons;
  return (
    pendingReasons.length !== known.length ||
    pendingReasons.some(({ host, why }, i) => host !== known[i]?.host || why !== known[i]?.why)
  );
}

/** Lost a race; a retry may succeed. */
class RacesLost extends Error {}

/** Result of processing one deployment. */
interface Checked {
  readonly isMoved: boolean;
  /** No query was needed. */
  readonly isIdle: boolean;
  /** Next timer, if it is due soon. */
  readonly timer: Timer | undefined;
}

/** Delay before the first retry of a failed step. */
const retryMs = 250;

function createCheckAll<Facts>(deps: {
  readonly active: () => Promise<readonly Active[]>;
  readonly step: (one: Active, facts: Facts) => Promise<Checked>;
  readonly setTimers: (timers: readonly Timer[]) => void;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Unix ms. */
  readonly unixMs: () => number;
}): (facts: Facts) => Promise<number> {
  /** Deployments that timed out at the database in the last pass. */
  let unanswered: ReadonlySet<DeploymentId> = new Set();

  /** Process those last: when many wait for one lock, all others are done before the pass ends at them. */
  async function inOrder(): Promise<readonly Active[]> {
    const all = await deps.active();
    const isLast = (one: Active) => Number(unanswered.has(one.deployment.id));
    return unanswered.size > 0 ? all.toSorted((a, b) => isLast(a) - isLast(b)) : all;
  }

  /**
   * Returns when to retry a failed step. A lock timeout waits for the next poll: each retry takes as long as a statement
   * may.
   */
  function retryOf({ deployment: { id } }: Active, { error, isSilent }: Failed): Timer | undefined {
    const level = error instanceof RacesLost ? "info" : "warn";
    deps.log[level]({ err: error, deployment: id }, "deployment step failed; will retry");
    return isSilent ? undefined : { id, kind: "retry", atMs: deps.unixMs() + retryMs };
  }

  /** Returns the number of changed deployments. Throws the database's error when it is unavailable. */
  return async (facts) => {
    const timers: Timer[] = [];
    const silent = new Set<DeploymentId>();
    let moved = 0;
    let silentInARow = 0;
    const all = await inOrder();
    try {
      for (const one of all) {
        const checked = await deps.step(one, facts).catch((error: unknown) => new Failed(error));
        const isFailed = checked instanceof Failed;
        if (isFailed && checked.isSilent) {
          silent.add(one.deployment.id);
          silentInARow += 1;
          // One timeout may be a lock; two in a row mean that the database is unavailable.
          if (silentInARow > 1) throw checked.error;
        } else if (isFailed || !checked.isIdle) silentInARow = 0;
        if (!isFailed && checked.isMoved) moved += 1;
        const timer = isFailed ? retryOf(one, checked) : checked.timer;
        if (timer) timers.push(timer);
      }
    } finally {
      unanswered = silent;
      deps.setTimers(timers);
    }
    return moved;
  };
}

class Failed {
  readonly error: unknown;
  /** The database did not respond. */
  readonly isSilent: boolean;
  constructor(error: unknown) {
    this.error = error;
    this.isSilent = error instanceof DatabaseUnavailable;
  }
}
