// One step of each deployment of a group: decide, claim the rows, decide again, choose hosts, write. Several replicas run it
// concurrently: the claim serialises work on a deployment, revisions of hosts prevent two placements on one GPU.
import { setTimeout } from "node:timers/promises";
import type { Logger } from "pino";
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import { isServing } from "../../proto/instance-phase.ts";
import type { Tracing } from "../../proto/tracing.ts";
import type { HostState } from "../fleet/host.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { Choice, HostChooser } from "./choose-hosts.ts";
import { type Departures, decide, isNews, isSame, type Loads, noLoads } from "./decide.ts";
import { FailedPlacements } from "./failed-placements.ts";
import type { Claimed, Decision, DeploymentStore, Verdict } from "./store.ts";
import { type HostTimes, nextDueMs } from "./timers.ts";

export interface Transition {
  readonly from: string;
  readonly to: string;
  readonly seconds: number;
}

export interface StepDeps {
  readonly store: Pick<DeploymentStore, "claim" | "commit" | "release">;
  readonly hosts: HostChooser;
  readonly hostState: (host: HostId) => HostState;
  readonly owner: string;
  readonly log: Logger;
  /** Returns the requests at the instances of these hosts. */
  readonly loads?: (hosts: readonly HostId[]) => Promise<Loads>;
  readonly onTransition?: (transition: Transition) => void;
  /** Undefined: traces are off. */
  readonly tracing?: Tracing | undefined;
  /** Ms until a silent host counts as lost; undefined: it is not silent, or already lost. */
  readonly untilLostMs?: HostTimes["untilLostMs"];
}

export interface Look {
  readonly isIdle: boolean;
  /** Unix ms at which the next step is due; undefined: none is known. */
  readonly dueAtMs: number | undefined;
}

/** `held`: another controller works on it. `lost`: it lost every race, and a retry may succeed. */
export type StepEnd = "moved" | "unchanged" | "held" | "lost";

const claimTtlMs = 30_000;
/** Tries of a step that loses races. */
const maxTries = 4;
/** Pause before the second try; longer before each further one. */
const againMs = 10;

interface Decided extends Decision {
  readonly isInPlace: boolean;
}

export class DeploymentSteps {
  readonly #deps: StepDeps;
  readonly #unixMs: () => number;
  readonly #failed = new FailedPlacements();

  constructor(deps: StepDeps, unixMs: () => number) {
    this.#deps = deps;
    this.#unixMs = unixMs;
  }

  /** Returns whether it has a step to take, without a query: most deployments have none and cost no claim. */
  look({ deployment, instances }: Omit<Claimed, "lockToken">, leaving: Departures): Look {
    const nowMs = this.#unixMs();
    const { placed, outcome, plan } = decide(deployment, instances, this.#facts(leaving));
    const untilDueMs = (host: HostId) => {
      const dueAtMs = leaving.dueAtMs.get(host);
      return dueAtMs === undefined ? undefined : dueAtMs - nowMs;
    };
    const times = { untilLostMs: this.#deps.untilLostMs ?? never, untilDueMs };
    const isQuiet = plan.place === 0 && plan.tombstone.length === 0 && plan.revise.length === 0;
    return {
      isIdle: isQuiet && deployment.pendingReasons.length === 0 && isSame(deployment, outcome),
      dueAtMs: nextDueMs(deployment, placed, times, nowMs),
    };
  }

  /**
   * Takes one step of each, in this order. At most `maxGroup`. `lost`: it lost every race; a retry may succeed. Throws when
   * the database is unavailable, and when the step of any of them is impossible: then none was taken.
   */
  async take(ids: readonly DeploymentId[], leaving: Departures): Promise<ReadonlyMap<DeploymentId, StepEnd>> {
    const ends = new Map<DeploymentId, StepEnd>();
    let open = ids;
    for (let attempt = 1; attempt <= maxTries && open.length > 0; attempt++) {
      if (attempt > 1) await setTimeout(againMs * (attempt - 1));
      const claimed = await this.#deps.store.claim(open, this.#deps.owner, claimTtlMs);
      for (const id of open) ends.set(id, "held");
      for (const [id, end] of await this.#settle(claimed, leaving)) ends.set(id, end);
      open = open.filter((id) => ends.get(id) === "lost");
    }
    return ends;
  }

  #facts(leaving: Departures, loads?: Loads) {
    return { hostState: this.#deps.hostState, leaving, nowMs: this.#unixMs(), ...(loads ? { loads } : {}) };
  }

  async #settle(claimed: readonly Claimed[], leaving: Departures): Promise<ReadonlyMap<DeploymentId, StepEnd>> {
    const { store, hosts } = this.#deps;
    if (claimed.length === 0) return new Map();
    let decided: readonly Decided[] = [];
    const beganMs = performance.now();
    try {
      decided = await this.#decideOn(claimed, leaving);
      const news = decided.filter(({ claimed: { deployment }, verdict }) => isNews(deployment, verdict));
      const written = news.length > 0 ? await store.commit(news) : new Set<DeploymentId>();
      const isWritten = (one: Decided) => written.has(one.claimed.deployment.id);
      const done = news.filter(isWritten);
      const lost = news.filter((one) => !isWritten(one));
      hosts.placed(done.map(({ claimed: { deployment }, verdict }) => ({ deployment, ...verdict })));
      for (const { hostId } of lost.flatMap(({ verdict }) => verdict.placements)) hosts.changed(hostId);
      for (const one of done) {
        if (one.verdict.placements.length > 0) this.#failed.forget(one.claimed.deployment.id);
        this.#report(one);
        this.#trace(one, beganMs);
      }
      await store.release(decided.filter((one) => !isWritten(one)).map((one) => one.claimed));
      const endOf = (one: Decided): StepEnd => (isWritten(one) ? "moved" : lost.includes(one) ? "lost" : "unchanged");
      return new Map(decided.map((one) => [one.claimed.deployment.id, endOf(one)]));
    } catch (error) {
      this.#noteFailure(decided, error);
      await store.release(claimed).catch(() => {});
      throw error;
    }
  }

  /** A group that fails is repeated one deployment at a time, which shows whose placement it was. */
  #noteFailure(decided: readonly Decided[], error: unknown): void {
    const [one] = decided;
    if (!one || decided.length > 1 || error instanceof DatabaseUnavailable) return;
    const hosts = one.verdict.placements.map(({ hostId }) => hostId);
    if (hosts.length > 0) this.#failed.note(one.claimed.deployment.id, hosts, this.#unixMs());
  }

  /** Read only when one of several serving instances must stop. */
  async #loadsFor(claimed: readonly Claimed[], leaving: Departures): Promise<Loads> {
    const { loads } = this.#deps;
    if (!loads) return noLoads;
    const hosts = claimed.flatMap(({ deployment, instances }) => {
      const serving = instances.filter(({ phase, isTombstoned }) => isServing(phase) && !isTombstoned);
      if (serving.length < 2) return [];
      const { plan } = decide(deployment, instances, this.#facts(leaving));
      const isChoice = plan.tombstone.length > 0 || plan.inPlace !== undefined;
      return isChoice ? serving.map(({ hostId }) => hostId) : [];
    });
    return hosts.length > 0 ? loads([...new Set(hosts)]) : noLoads;
  }

  async #decideOn(claimed: readonly Claimed[], leaving: Departures): Promise<readonly Decided[]> {
    const { hosts } = this.#deps;
    const facts = this.#facts(leaving, await this.#loadsFor(claimed, leaving));
    const decisions = claimed.map((one) => ({ one, ...decide(one.deployment, one.instances, facts) }));
    const requests = decisions.filter(({ plan }) => plan.place > 0);
    const found =
      requests.length > 0
        ? await hosts.choose(
            requests.map(({ one, plan }) => ({
              ...one,
              count: plan.place,
              avoided: this.#failed.of(one.deployment.id, this.#unixMs()),
            })),
          )
        : [];
    const choices = new Map(requests.map(({ one }, n) => [one, found[n] as Choice]));
    return decisions.map(({ one, outcome, plan, replacements }) => {
      const { deployment, instances } = one;
      const chosen = choices.get(one) ?? { placements: [], reasons: [], reserve: undefined, sharing: undefined };
      // No capacity for a second instance: replace the old one in place, with a gap in service. If its GPUs could not hold
      // the new one either, it keeps serving.
      const changeable = instances.find(({ id }) => id === plan.inPlace);
      const isInPlace =
        chosen.placements.length === 0 && changeable !== undefined && hosts.holds(deployment, changeable);
      const verdict: Verdict = {
        ...outcome,
        pendingReasons: isInPlace ? [] : chosen.reasons,
        placements: chosen.placements,
        reserve: chosen.placements.length > 0 ? chosen.reserve : undefined,
        sharing: chosen.sharing,
        tombstones: plan.tombstone,
        revised: isInPlace ? [changeable.id] : plan.revise,
        replacements,
      };
      return { claimed: one, verdict, isInPlace };
    });
  }

  /** A trace of its own: requests do not wait for it. */
  #trace({ claimed: { deployment }, verdict }: Decided, startMs: number): void {
    const { status, placements, tombstones, revised, pendingReasons } = verdict;
    this.#deps.tracing
      ?.start("place", undefined, {
        startMs,
        attributes: {
          "stoker.deployment": deployment.id,
          "stoker.status.from": deployment.status,
          "stoker.status.to": status,
          "stoker.hosts": placements.map(({ hostId }) => hostId),
          "stoker.stopped_instances": tombstones,
          "stoker.updated_instances": revised,
          "stoker.pending_reasons": pendingReasons.length,
        },
      })
      ?.end();
  }

  #report({ claimed: { deployment }, verdict, isInPlace }: Decided): void {
    const { log, onTransition } = this.#deps;
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
    const seconds = Math.max(0, this.#unixMs() - deployment.updatedAtMs) / 1000;
    onTransition?.({ from: deployment.status, to: status, seconds });
  }
}

const never = () => undefined;
