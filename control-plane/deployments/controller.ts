// Loop that converges deployments to their desired state, one step at a time (deployment-steps.ts), in groups of one transaction.
// Woken by changes and by timers of single deployments; also polls everything every few seconds.
import type { Logger } from "pino";
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import { pause } from "../../proto/pause.ts";
import { WakeablePause } from "../../proto/repeat.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { Departures, FaultyGpus } from "./decide.ts";
import { DeploymentSteps, type Look, type StepDeps, type StepEnd } from "./deployment-steps.ts";
import { type Active, type DeploymentStore, maxGroup } from "./store.ts";
import type { Timer, Timers } from "./timers.ts";

interface Controller {
  /** A deployment, or what it could be placed on, changed. */
  wake(): void;
  run(signal: AbortSignal): Promise<void>;
  /** One pass over all deployments; returns how many it changed. */
  pass(): Promise<number>;
  /** The same for one deployment. Throws when a step failed and should be retried. */
  check(id: DeploymentId): Promise<void>;
}

interface ControllerDeps extends StepDeps {
  readonly store: Pick<DeploymentStore, "active" | "claim" | "commit" | "release">;
  /** Hosts that are being drained, with the ms left; read once per pass. */
  readonly leaving?: () => Promise<ReadonlyMap<HostId, number>>;
  /** GPUs with a fault: an instance on one is replaced elsewhere before it stops. Read once per pass. */
  readonly faultyGpus?: () => Promise<FaultyGpus>;
  /** Wake the controller when an event is due, and after a failed step; without timers the next poll finds both. */
  readonly timers?: Pick<Timers, "add">;
  readonly resyncMs?: number;
  /** Maximum deployments of one transaction; at most `maxGroup`. */
  readonly groupSize?: number;
  /** Unix ms. */
  readonly unixMs?: () => number;
}

/** Lost every race against other controllers; a retry may succeed. */
class RacesLost extends Error {}

const resyncMs = 5_000;
/** Timers are set for events due within this many polls; later ones may change before. */
const pollsAhead = 3;
/** Maximum timers set per poll, the soonest first. */
const maxTimers = 500;

export function createController(deps: ControllerDeps): Controller {
  const { store, log } = deps;
  const untilChange = new WakeablePause();
  const unixMs = deps.unixMs ?? steadyTime.nowMs;
  const everyMs = deps.resyncMs ?? resyncMs;
  const groupSize = Math.min(maxGroup, deps.groupSize ?? maxGroup);
  const steps = new DeploymentSteps(deps, unixMs);

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

  /** Returns when to look at it again; undefined: the next poll is early enough. */
  function timerOf({ id, dueAtMs, claimedUntilMs }: Looked, end: StepEnd): Timer | undefined {
    const nowMs = unixMs();
    if (end === "lost") return { id, kind: "retry", atMs: nowMs + retryMs };
    // The holder may have died: its work is done when the claim expires.
    const heldUntilMs = end === "held" && claimedUntilMs > nowMs ? claimedUntilMs : Number.POSITIVE_INFINITY;
    const atMs = Math.min(heldUntilMs, dueAtMs ?? Number.POSITIVE_INFINITY);
    return atMs - nowMs <= pollsAhead * everyMs ? { id, kind: "due", atMs } : undefined;
  }

  /** Deployments that timed out at the database and were not answered since, the latest timeout last. */
  let unanswered: ReadonlySet<DeploymentId> = new Set();

  async function pass(): Promise<number> {
    const one = new Pass({ steps, leaving: await departures(), maxGroup: groupSize, timerOf, log });
    const all = await store.active(undefined);
    try {
      await one.over(all, unanswered);
    } finally {
      unanswered = one.unanswered;
      setTimers(one.timers);
    }
    return one.moved;
  }

  async function check(id: DeploymentId): Promise<void> {
    const [one] = await store.active([id]);
    if (!one) return;
    const leaving = await departures();
    const looked = { ...steps.look(one, leaving), id, claimedUntilMs: one.claimedUntilMs };
    const end = looked.isIdle ? "unchanged" : ((await steps.take([id], leaving)).get(id) ?? "held");
    if (end === "lost") throw new RacesLost("lost every race against other controllers");
    const timer = timerOf(looked, end);
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
    wake: untilChange.wake,
    async run(signal) {
      while (!signal.aborted) {
        try {
          await inTurn(pass);
        } catch (error) {
          log.warn({ err: error }, "deployment controller pass failed; will retry");
          await pause(500, signal);
        }
        await untilChange.wait(everyMs, signal);
      }
    },
  };
}

/** Delay before the first retry of a failed step. */
const retryMs = 250;

interface PassDeps {
  readonly steps: DeploymentSteps;
  readonly leaving: Departures;
  readonly maxGroup: number;
  readonly timerOf: (one: Looked, end: StepEnd) => Timer | undefined;
  readonly log: Pick<Logger, "info" | "warn">;
}

interface Looked extends Look {
  readonly id: DeploymentId;
  readonly claimedUntilMs: number;
}

/** One pass over all deployments. */
class Pass {
  readonly timers: Timer[] = [];
  /** Deployments that timed out at the database and were not answered since, the latest timeout last. */
  readonly unanswered = new Set<DeploymentId>();
  moved = 0;
  #timeoutsInARow = 0;
  readonly #deps: PassDeps;

  constructor(deps: PassDeps) {
    this.#deps = deps;
  }

  /**
   * `last`: `unanswered` of the pass before. When many wait for one lock, all others are done before the pass ends at them. Each
   * pass tries those first that the one before did not reach.
   * Throws the database's error when it is unavailable.
   */
  async over(all: readonly Active[], last: ReadonlySet<DeploymentId>): Promise<void> {
    const { steps, leaving, maxGroup } = this.#deps;
    const open: Looked[] = [];
    const suspects = new Map<DeploymentId, Looked>();
    for (const { deployment, instances, claimedUntilMs } of all) {
      const one = { ...steps.look({ deployment, instances }, leaving), id: deployment.id, claimedUntilMs };
      if (one.isIdle) this.#end(one, "unchanged");
      else if (last.has(one.id)) suspects.set(one.id, one);
      else open.push(one);
    }
    const alone = [...last].flatMap((id) => suspects.get(id) ?? []);
    for (const { id } of alone) this.unanswered.add(id);
    for (let at = 0; at < open.length; at += maxGroup) await this.#take(open.slice(at, at + maxGroup));
    for (const one of alone) await this.#take([one]);
  }

  async #take(group: readonly Looked[]): Promise<void> {
    const { steps, leaving, log } = this.#deps;
    try {
      const ends = await steps.take(
        group.map(({ id }) => id),
        leaving,
      );
      this.#timeoutsInARow = 0;
      for (const one of group) {
        this.unanswered.delete(one.id);
        const end = ends.get(one.id) ?? "held";
        if (end === "lost") log.info({ deployment: one.id }, "deployment step lost every race; will retry");
        this.#end(one, end);
      }
    } catch (error) {
      // Only the one that failed must wait: the others take their steps.
      if (group.length > 1) {
        for (const one of group) await this.#take([one]);
        return;
      }
      const [one] = group as [Looked];
      const { id } = one;
      this.unanswered.delete(id);
      const isTimeout = error instanceof DatabaseUnavailable;
      this.#timeoutsInARow = isTimeout ? this.#timeoutsInARow + 1 : 0;
      if (isTimeout) this.unanswered.add(id);
      // One timeout may be a lock; two deployments in a row mean that the database is unavailable.
      if (this.#timeoutsInARow > 1) throw error;
      log.warn({ err: error, deployment: id }, "deployment step failed; will retry");
      // A lock timeout waits for the next poll: each retry takes as long as a statement may.
      if (!isTimeout) this.#end(one, "lost");
    }
  }

  #end(one: Looked, end: StepEnd): void {
    if (end === "moved") this.moved += 1;
    const timer = this.#deps.timerOf(one, end);
    if (timer) this.timers.push(timer);
  }
}
