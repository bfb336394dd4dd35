// Observe, diff, apply, report, wait. Level-triggered: every pass checks everything, so a lost event costs one interval.
// INVARIANTS: at most one step per instance runs besides a probe; a step never waits for another; a download of one
// instance delays no other; a failed observation changes nothing.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { pause } from "../../proto/pause.ts";
import { diff, newestOf, type Step } from "./diff.ts";
import { type DrainLeft, drainLeftMs } from "./drain.ts";
import type { Observed } from "./driver.ts";
import { createFactsBook, type View } from "./facts.ts";
import type { GpuMeter } from "./ports.ts";
import { reportOf, servingOf, targetsOf } from "./report.ts";
import type { StepDeps } from "./step-deps.ts";
import { createExecutors, execute } from "./steps.ts";

export interface LoopDeps extends Omit<StepDeps, "book" | "progressed" | "drainLeft"> {
  /** Time that running requests have before an instance is stopped, unless the control plane sends another. */
  readonly drainMs: number;
  readonly controlTimeMs: () => number;
  readonly onNews: () => void;
  /** Undefined on a host without billing, whose desired state is a file. */
  readonly meter: GpuMeter | undefined;
}

export type Reconciler = ReturnType<typeof createReconciler>;

const resyncMs = 5_000;
const listLimitMs = 20_000;
const retryMs = 1_000;
const progressEveryMs = 1_000;
const volumeGraceMs = 10_000;

export function createReconciler(deps: LoopDeps) {
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
  let isUnavailable = false;
  let isHeld = false;

  driver.watch(wake.now);

  async function observe(signal: AbortSignal): Promise<ReadonlyMap<InstanceId, Observed> | undefined> {
    try {
      const found = await driver.list(AbortSignal.any([signal, AbortSignal.timeout(listLimitMs)]));
      if (isUnavailable) log.info("the driver replies again");
      isUnavailable = false;
      return newestOf(found);
    } catch (error) {
      if (!isUnavailable && !signal.aborted) log.error({ err: error }, "the driver does not reply; nothing is changed");
      isUnavailable = true;
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
      log.warn({ ...facts, err: failure }, "step failed; will retry");
      await pause(retryMs, signal);
    } else log[step.kind === "probe" ? "debug" : "info"](facts, "step done");
  }

  function look(observed: ReadonlyMap<InstanceId, Observed>, wereBusy: readonly InstanceId[]) {
    const nowMs = clock();
    const forgotten = book.update(desired?.instances ?? [], desired?.tombstones ?? [], observed, nowMs);
    const unsettled = new Set(wereBusy.filter((id) => !book.get(id).busy));
    const view: View = { desired, observed, facts: book.all, unsettled, isHeld, nowMs };
    return { view, forgotten };
  }

  function publish(view: View, forgotten: readonly InstanceId[]): void {
    last = { ...view, facts: new Map(view.facts) };
    deps.dataPath.setTargets(targetsOf(view, deps.host));
    deps.meter?.look(servingOf(view));
    let isNews = false;
    const { instances, removed } = reportOf(view, deps.dataPath.stats);
    const now = new Map<InstanceId, string>(removed.map((id) => [id, "removed"]));
    for (const { instanceId, deployId, phase, generation, bytesDone } of instances) {
      // Every progress of a download is news: the console shows a progress bar.
      now.set(instanceId, `${phase}/${generation}/${bytesDone}`);
      events.phase(instanceId, deployId, phase);
    }
    // After `setTargets`: the data path keeps what it removes from its set.
    for (const id of [...forgotten, ...removed]) {
      events.gone(id);
      deps.dataPath.forget(id);
    }
    for (const id of forgotten) phases.delete(id);
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
    setDesired(next: DesiredState__Output) {
      desired = next;
      wake.now();
    },
    /** With true, nothing is started until it is called with false. Wakes the loop. */
    hold(next: boolean) {
      if (next === isHeld) return;
      isHeld = next;
      wake.now();
    },
    report: () => last && { ...reportOf(last, deps.dataPath.stats), generation: last.desired?.generation ?? "0" },
    /** Runs until aborted. Instances continue to run. */
    async run(signal: AbortSignal) {
      while (!signal.aborted) {
        const wereBusy = [...running.keys()];
        const observed = await observe(signal);
        if (signal.aborted) break;
        if (!observed) {
          await pause(retryMs, signal);
          continue;
        }
        const { view, forgotten } = look(observed, wereBusy);
        for (const step of diff(view)) begin(step, signal);
        publish(view, forgotten);
        await wake.wait(nextLookMs(view), signal);
      }
      await Promise.all(inFlight);
    },
    /**
     * Runs `work` while the instances of a deployment are stopped and have no step; afterwards, also after a failure, the loop
     * starts the desired ones again. Do not call it while other such work on the deployment runs.
     */
    async whileEnded<T>(deployId: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
      const found = await driver.list(signal);
      const specs = (desired?.instances ?? []).filter((spec) => spec.deployId === deployId);
      const own = found.filter((one) => one.deployId === deployId);
      const ids = new Set([...specs.map((spec) => spec.instanceId as InstanceId), ...own.map((one) => one.instanceId)]);
      const busy = { kind: "restart", generation: Number.MAX_SAFE_INTEGER };
      try {
        for (;;) {
          // No step starts on a busy instance: mark each as busy once nothing runs on it.
          for (const id of ids) if (!running.has(id)) book.change(id, (facts) => ({ ...facts, busy }));
          const steps = [...ids].flatMap((id) => running.get(id) ?? []);
          if (steps.length === 0) break;
          // A download may take hours; it resumes later.
          for (const id of ids) if (book.get(id).busy?.kind === "fetch") running.get(id)?.own.abort();
          await pause(undefined, signal, (end) => void Promise.race(steps.map(({ work }) => work)).then(end));
          signal.throwIfAborted();
        }
        const alive = (await driver.list(signal)).filter((one) => ids.has(one.instanceId) && one.state !== "exited");
        for (const one of alive) await endNow(one, signal);
        return await work();
      } finally {
        for (const id of ids) book.change(id, (facts) => (facts.busy === busy ? { ...facts, busy: undefined } : facts));
        wake.now();
      }
    },
    /** Stops the model servers with the agent, after `run` has ended. Takes little more than `graceMs`. */
    async stopInstances(graceMs: number, signal: AbortSignal) {
      const found = await driver.list(signal);
      const alive = found.filter((one) => one.state !== "exited");
      const results = await Promise.allSettled(alive.map((one) => driver.stop(one.instanceId, graceMs, signal)));
      for (const [index, result] of results.entries())
        if (result.status === "rejected")
          log.error({ err: result.reason, instance: alive[index]?.instanceId }, "could not stop a model server");
      log.info({ stopped: alive.length }, "model servers stopped with the agent");
    },
  };
}

const whyOf = (step: Step) => ("why" in step ? { why: step.why } : {});

function createWake() {
  let isWanted = false;
  let notify = () => {};
  return {
    now: () => {
      isWanted = true;
      notify();
    },
    async wait(ms: number, signal: AbortSignal) {
      if (!isWanted) await pause(ms, signal, (end) => (notify = end));
      notify = () => {};
      isWanted = false;
    },
  };
}
