// Observe, diff, apply, report, wait. Level-triggered: every pass looks at everything, so a lost event costs one interval.
// INVARIANTS: at most one step per instance runs besides a probe; a step never waits for another; a download of one
// instance holds no other up; a failed observation changes nothing.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { diff, newestOf, type Step } from "./diff.ts";
import { type DrainLeft, drainLeftMs } from "./drain.ts";
import type { Observed } from "./driver.ts";
import { createFactsBook } from "./facts-book.ts";
import type { GpuMeter } from "./ports.ts";
import { type Reported, reportOf, servingOf, targetsOf } from "./report.ts";
import type { StepDeps } from "./step-deps.ts";
import { createExecutors, execute } from "./steps.ts";
import type { View } from "./view.ts";
import { createWake } from "./wake.ts";

export interface LoopDeps extends Omit<StepDeps, "book" | "progressed" | "drainLeft"> {
  /** How long running requests may take to finish before an instance is stopped, where the control plane said no other time. */
  readonly drainMs: number;
  /** Unix ms, by the control plane's clock. */
  readonly controlTimeMs: () => number;
  /** A phase changed: tell it soon. */
  readonly onNews: () => void;
  /** Undefined where nobody bills: a host that is told by a file. */
  readonly meter: GpuMeter | undefined;
}

export interface Reconciler {
  /** The whole set; wakes the loop. */
  setDesired(desired: DesiredState__Output): void;
  /** Nothing is started until it is called with false again. Wakes the loop. */
  hold(isHeld: boolean): void;
  /** As of the last pass; undefined before the first. */
  report(): (Reported & { readonly generation: string }) | undefined;
  /** Until aborted. Instances go on running. */
  run(signal: AbortSignal): Promise<void>;
  /**
   * Runs `work` with the instances of a deployment ended and no step on them; afterwards, also when it failed, the loop
   * brings back what is wanted. Not while another such work on the deployment runs.
   */
  whileEnded<T>(deployId: string, work: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** For a shutdown that takes the model servers along, after `run` has ended. Bounded by `graceMs` and a little. */
  stopInstances(graceMs: number, signal: AbortSignal): Promise<void>;
}

const resyncMs = 5_000;
const listLimitMs = 20_000;
const retryMs = 1_000;
const progressEveryMs = 1_000;
const volumeGraceMs = 10_000;

export function createReconciler(deps: LoopDeps): Reconciler {
  const { driver, log, events, clock } = deps;
  const book = createFactsBook();
  const wake = createWake();
  let lastProgressMs = Number.NEGATIVE_INFINITY;
  const progressed = () => {
    if (clock() - lastProgressMs < progressEveryMs) return;
    lastProgressMs = clock();
    wake.now();
  };
  const drainLeft: DrainLeft = (id, forMs) => drainLeftMs(desired, id, deps.drainMs, forMs, deps.controlTimeMs);
  const executors = createExecutors({ ...deps, book, progressed, drainLeft });
  const running = new Map<InstanceId, { readonly own: AbortController; readonly work: Promise<void> }>();
  const inFlight = new Set<Promise<void>>();
  const phases = new Map<InstanceId, string>();
  let desired: DesiredState__Output | undefined;
  let last: View | undefined;
  let isAway = false;
  let isHeld = false;

  driver.watch(wake.now);

  async function observe(signal: AbortSignal): Promise<ReadonlyMap<InstanceId, Observed> | undefined> {
    try {
      const found = await driver.list(AbortSignal.any([signal, AbortSignal.timeout(listLimitMs)]));
      if (isAway) log.info("the driver answers again");
      isAway = false;
      return newestOf(found);
    } catch (error) {
      if (!isAway && !signal.aborted) log.error({ err: error }, "the driver does not answer; nothing is changed");
      isAway = true;
      return undefined;
    }
  }

  function begin(step: Step, signal: AbortSignal): void {
    if (step.kind === "cancel") {
      running.get(step.id)?.own.abort();
      return;
    }
    const isProbe = step.kind === "probe";
    const own = new AbortController();
    const { generation } = book.get(step.id);
    book.change(step.id, (facts) =>
      isProbe ? { ...facts, isProbing: true } : { ...facts, busy: { kind: step.kind, generation } },
    );
    const work = perform(step, AbortSignal.any([signal, own.signal])).then(() => {
      inFlight.delete(work);
      if (!isProbe) running.delete(step.id);
      book.change(step.id, (facts) => (isProbe ? { ...facts, isProbing: false } : { ...facts, busy: undefined }));
      wake.now();
    });
    inFlight.add(work);
    if (!isProbe) running.set(step.id, { own, work });
  }

  /** Stops what runs of one instance. What we end is no crash. */
  async function endNow({ instanceId, identity }: Observed, signal: AbortSignal): Promise<void> {
    book.change(instanceId, (facts) => ({ ...facts, countedExit: identity }));
    await driver.stop(instanceId, volumeGraceMs, signal);
  }

  async function perform(step: Step, signal: AbortSignal): Promise<void> {
    const beganMs = clock();
    let failure: unknown;
    try {
      await execute(executors, step, signal);
    } catch (error) {
      failure = error;
    }
    const facts = { step: step.kind, instance: step.id, ms: Math.round(clock() - beganMs), ...whyOf(step) };
    if (failure && signal.aborted) log.info(facts, "step ended early");
    else if (failure) {
      log.warn({ ...facts, err: failure }, "step failed; it is tried again");
      await wake.sleep(retryMs, signal);
    } else log[step.kind === "probe" ? "debug" : "info"](facts, "step done");
  }

  function look(observed: ReadonlyMap<InstanceId, Observed>, wereBusy: readonly InstanceId[]): View {
    const nowMs = clock();
    const forgotten = book.update(desired?.instances ?? [], desired?.tombstones ?? [], observed, nowMs);
    for (const id of forgotten) {
      phases.delete(id);
      events.gone(id);
    }
    const unsettled = new Set(wereBusy.filter((id) => !book.get(id).busy));
    return { desired, observed, facts: book.all, unsettled, isHeld, nowMs };
  }

  /** Routes and reports follow what was seen and what is being done. */
  function publish(view: View): void {
    last = { ...view, facts: new Map(view.facts) };
    deps.dataPath.setTargets(targetsOf(view));
    deps.meter?.look(servingOf(view));
    let isNews = false;
    const { instances, removed } = reportOf(view, deps.dataPath.stats);
    const now = new Map<InstanceId, string>(removed.map((id) => [id, "removed"]));
    for (const { instanceId, deployId, phase, generation, bytesDone } of instances) {
      // Every step of a download is news: somebody looks at a progress bar.
      now.set(instanceId, `${phase}/${generation}/${bytesDone}`);
      events.phase(instanceId, deployId, phase);
    }
    for (const id of removed) events.gone(id);
    for (const [id, phase] of now) {
      isNews ||= phases.get(id) !== phase;
      phases.set(id, phase);
    }
    if (isNews) deps.onNews();
  }

  function nextLookMs(view: View): number {
    const due = [...view.facts.values()].flatMap(({ life, notBeforeMs, isProbing }) => [
      ...(life && !isProbing ? [life.nextProbeMs] : []),
      notBeforeMs,
    ]);
    const later = due.filter((atMs) => atMs > view.nowMs).map((atMs) => atMs - view.nowMs);
    return Math.min(resyncMs, ...later);
  }

  return {
    setDesired(next) {
      desired = next;
      wake.now();
    },
    hold(next) {
      if (next === isHeld) return;
      isHeld = next;
      wake.now();
    },
    report: () => last && { ...reportOf(last, deps.dataPath.stats), generation: last.desired?.generation ?? "0" },
    async run(signal) {
      while (!signal.aborted) {
        const wereBusy = [...running.keys()];
        const observed = await observe(signal);
        if (signal.aborted) break;
        if (!observed) {
          await wake.sleep(retryMs, signal);
          continue;
        }
        const view = look(observed, wereBusy);
        for (const step of diff(view)) begin(step, signal);
        publish(view);
        await wake.wait(nextLookMs(view), signal);
      }
      await Promise.all(inFlight);
    },
    async whileEnded(deployId, work, signal) {
      const found = await driver.list(signal);
      const specs = (desired?.instances ?? []).filter((spec) => spec.deployId === deployId);
      const own = found.filter((one) => one.deployId === deployId);
      const ids = new Set([...specs.map((spec) => spec.instanceId as InstanceId), ...own.map((one) => one.instanceId)]);
      const busy = { kind: "restart", generation: Number.MAX_SAFE_INTEGER };
      try {
        for (;;) {
          // No step begins on what is busy: each is taken in the turn in which nothing runs on it.
          for (const id of ids) if (!running.has(id)) book.change(id, (facts) => ({ ...facts, busy }));
          const steps = [...ids].flatMap((id) => running.get(id) ?? []);
          if (steps.length === 0) break;
          // A download may take hours and goes on from where it was.
          for (const id of ids) if (book.get(id).busy?.kind === "fetch") running.get(id)?.own.abort();
          await orAborted(Promise.race(steps.map(({ work }) => work)), signal);
        }
        const alive = (await driver.list(signal)).filter((one) => ids.has(one.instanceId) && one.state !== "exited");
        for (const one of alive) await endNow(one, signal);
        return await work();
      } finally {
        for (const id of ids) book.change(id, (facts) => (facts.busy === busy ? { ...facts, busy: undefined } : facts));
        wake.now();
      }
    },
    async stopInstances(graceMs, signal) {
      const found = await driver.list(signal);
      const alive = found.filter((one) => one.state !== "exited");
      const results = await Promise.allSettled(alive.map((one) => driver.stop(one.instanceId, graceMs, signal)));
      for (const [index, result] of results.entries())
        if (result.status === "rejected")
          log.error({ err: result.reason, instance: alive[index]?.instanceId }, "a model server could not be stopped");
      log.info({ stopped: alive.length }, "model servers stopped with the agent");
    },
  };
}

async function orAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

const whyOf = (step: Step) => ("why" in step ? { why: step.why } : {});
