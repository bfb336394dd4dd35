// Loop that converges deployments to their desired state, one step at a time (deployment-steps.ts). Woken by changes and by
// timers of single deployments; also polls everything every few seconds.
import type { Logger } from "pino";
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import { pause } from "../../proto/pause.ts";
import { WakeablePause } from "../../proto/repeat.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { DatabaseUnavailable } from "../service-error.ts";
import type { Departures, FaultyGpus } from "./decide.ts";
import { type Checked, DeploymentSteps, RacesLost, type StepDeps } from "./deployment-steps.ts";
import type { Active, DeploymentStore } from "./store.ts";
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
  /** Unix ms. */
  readonly unixMs?: () => number;
}

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
  const steps = new DeploymentSteps(deps, unixMs);

  /** Returns the timer of a step that is due soon. */
  const timerOf = (id: DeploymentId, { dueAtMs }: Checked): Timer | undefined =>
    dueAtMs !== undefined && dueAtMs - unixMs() <= pollsAhead * everyMs
      ? { id, kind: "due", atMs: dueAtMs }
      : undefined;

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
    step: (one, leaving) => steps.take(one, leaving),
    timerOf,
    setTimers,
    log,
    unixMs,
  });
  const pass = async () => checkAll(await departures());

  async function check(id: DeploymentId): Promise<void> {
    const [one] = await store.active([id]);
    if (!one) return;
    const timer = timerOf(id, await steps.take(one, await departures()));
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

function createCheckAll<Facts>(deps: {
  readonly active: () => Promise<readonly Active[]>;
  readonly step: (one: Active, facts: Facts) => Promise<Checked>;
  readonly timerOf: (id: DeploymentId, checked: Checked) => Timer | undefined;
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
        const timer = isFailed ? retryOf(one, checked) : deps.timerOf(one.deployment.id, checked);
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
