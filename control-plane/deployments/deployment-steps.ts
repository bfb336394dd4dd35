// One step of one deployment: decide, claim the row, decide again, choose hosts, write. Several replicas run it concurrently:
// the claim serialises work on a deployment, revisions of hosts prevent two placements on one GPU.
import type { Logger } from "pino";
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import type { HostState } from "../fleet/host.ts";
import type { HostChooser } from "./choose-hosts.ts";
import { type Departures, decide, isNews, isSame, type Loads, noLoads } from "./decide.ts";
import type { Deployment } from "./deployment.ts";
import type { Active, Claimed, DeploymentStore, Verdict } from "./store.ts";
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
  /** Ms until a silent host counts as lost; undefined: it is not silent, or already lost. */
  readonly untilLostMs?: HostTimes["untilLostMs"];
}

/** Result of one step. */
export interface Checked {
  readonly isMoved: boolean;
  /** No query was needed. */
  readonly isIdle: boolean;
  /** Unix ms at which the next step is due; undefined: none is known. */
  readonly dueAtMs: number | undefined;
}

/** Lost a race; a retry may succeed. */
export class RacesLost extends Error {}

const claimTtlMs = 30_000;
/** A lost race is retried at once, up to this often. */
const maxTries = 4;

export class DeploymentSteps {
  readonly #deps: StepDeps;
  readonly #unixMs: () => number;

  constructor(deps: StepDeps, unixMs: () => number) {
    this.#deps = deps;
    this.#unixMs = unixMs;
  }

  /** Throws RacesLost, or the database's error. */
  async take({ deployment, instances, claimedUntilMs }: Active, leaving: Departures): Promise<Checked> {
    const nowMs = this.#unixMs();
    const { placed, outcome, plan } = decide(deployment, instances, this.#facts(leaving));
    const untilDueMs = (host: HostId) => {
      const dueAtMs = leaving.dueAtMs.get(host);
      return dueAtMs === undefined ? undefined : dueAtMs - nowMs;
    };
    const times = { untilLostMs: this.#deps.untilLostMs ?? never, untilDueMs };
    const dueMs = nextDueMs(deployment, placed, times, nowMs);
    const isQuiet = plan.place === 0 && plan.tombstone.length === 0 && plan.revise.length === 0;
    // Most deployments have nothing to do and cost no claim.
    const isIdle = isQuiet && deployment.pendingReasons.length === 0 && isSame(deployment, outcome);
    const moved = !isIdle && (await this.#work(deployment.id, leaving));
    // The holder may have died: its work is done when the claim expires.
    const heldUntilMs = moved === "held" && claimedUntilMs > nowMs ? [claimedUntilMs] : [];
    const atMs = Math.min(...heldUntilMs, dueMs ?? Number.POSITIVE_INFINITY);
    return { isMoved: moved === true, isIdle, dueAtMs: Number.isFinite(atMs) ? atMs : undefined };
  }

  #facts(leaving: Departures, loads?: Loads) {
    return { hostState: this.#deps.hostState, leaving, nowMs: this.#unixMs(), ...(loads ? { loads } : {}) };
  }

  async #work(id: DeploymentId, leaving: Departures): Promise<boolean | "held"> {
    for (let attempt = 1; attempt <= maxTries; attempt++) {
      const claimed = await this.#deps.store.claim(id, this.#deps.owner, claimTtlMs);
      if (!claimed) return "held";
      const isWritten = await this.#settle(claimed, leaving);
      if (isWritten !== "lost-race") return isWritten;
    }
    throw new RacesLost("lost every race against other controllers");
  }

  /** Read only when one of several serving instances must stop. */
  async #loadsFor({ deployment, instances }: Claimed, leaving: Departures): Promise<Loads> {
    const { loads } = this.#deps;
    const serving = instances.filter(({ phase, isTombstoned }) => phase === "ready" && !isTombstoned);
    const { plan } = decide(deployment, instances, this.#facts(leaving));
    const isChoice = serving.length > 1 && (plan.tombstone.length > 0 || plan.inPlace !== undefined);
    if (!loads || !isChoice) return noLoads;
    return loads([...new Set(serving.map(({ hostId }) => hostId))]);
  }

  async #settle(claimed: Claimed, leaving: Departures): Promise<boolean | "lost-race"> {
    const { store, hosts } = this.#deps;
    const { deployment } = claimed;
    try {
      const { verdict, isInPlace } = await this.#verdictOn(claimed, leaving);
      if (!isNews(deployment, verdict)) {
        await store.release(claimed);
        return false;
      }
      if (!(await store.commit(claimed, verdict))) {
        for (const { hostId } of verdict.placements) hosts.changed(hostId);
        await store.release(claimed);
        return "lost-race";
      }
      hosts.placed(deployment, verdict.placements);
      this.#report(deployment, verdict, isInPlace);
      return true;
    } catch (error) {
      await store.release(claimed).catch(() => {});
      throw error;
    }
  }

  async #verdictOn(claimed: Claimed, leaving: Departures): Promise<{ verdict: Verdict; isInPlace: boolean }> {
    const { hosts } = this.#deps;
    const { deployment, instances } = claimed;
    const loads = await this.#loadsFor(claimed, leaving);
    const { outcome, plan, replacements } = decide(deployment, instances, this.#facts(leaving, loads));
    const chosen =
      plan.place > 0
        ? await hosts.choose(deployment, instances, plan.place)
        : { placements: [], reasons: [], reserve: undefined, sharing: undefined };
    // No capacity for a second instance: replace the old one in place, with a gap in service. If its GPUs could not hold
    // the new one either, it keeps serving.
    const changeable = instances.find(({ id }) => id === plan.inPlace);
    const isInPlace = chosen.placements.length === 0 && changeable !== undefined && hosts.holds(deployment, changeable);
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
    return { verdict, isInPlace };
  }

  #report(deployment: Deployment, verdict: Verdict, isInPlace: boolean): void {
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
