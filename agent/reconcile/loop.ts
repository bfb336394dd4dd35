// Observe, diff, apply, report, wait. Level-triggered: every pass checks everything, so a lost event costs one interval.
// INVARIANTS: at most one step per instance runs besides a probe; a step never waits for another; a download of one
// instance delays no other; a failed observation changes nothing.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { pause } from "../../proto/pause.ts";
import { WakeablePause } from "../../proto/repeat.ts";
import type { Tracing } from "../../proto/tracing.ts";
import { diff, newestOf, restOf, type Step } from "./diff.ts";
import { type DrainLeft, drainLeftMs } from "./drain.ts";
import type { Observed } from "./driver.ts";
import { createFactsBook, type Facts, type Life, type Use, type View } from "./facts.ts";
import type { GpuMeter } from "./ports.ts";
import { reportOf, servingOf, targetsOf } from "./report.ts";
import { givesWayMsOf, isAwaited, maySleep, minAwakeMsOf, type Rest } from "./rest.ts";
import type { StepDeps } from "./step-deps.ts";
import { Executors, execute } from "./steps.ts";

export interface LoopDeps extends Omit<StepDeps, "book" | "progressed" | "drainLeft"> {
  /** Time that running requests have before an instance is stopped, unless the control plane sends another. */
  readonly drainMs: number;
  /** Minimum time awake before an instance is put to sleep, in ms; undefined: by the time that its last wake took. */
  readonly minAwakeMs: number | undefined;
  readonly onNews: () => void;
  /** Undefined: traces are off. */
  readonly tracing?: Tracing | undefined;
  /** Undefined on a host without billing, whose desired state is a file. */
  readonly meter: GpuMeter | undefined;
}

const resyncMs = 5_000;
/** Events report most of what makes memory free; a waiting request that leaves has none. */
const lackingMs = 1_000;
const listLimitMs = 20_000;
const retryMs = 1_000;
const progressEveryMs = 1_000;
const volumeGraceMs = 10_000;

export class Reconciler {
  readonly #deps: LoopDeps;
  readonly #clock: () => number;
  readonly #log: LoopDeps["log"];
  readonly #driver: LoopDeps["driver"];
  readonly #book = createFactsBook();
  readonly #untilNext = new WakeablePause();
  #lastProgressMs = Number.NEGATIVE_INFINITY;
  readonly #executors: Executors;
  readonly #running = new Map<InstanceId, { readonly own: AbortController; readonly work: Promise<void> }>();
  readonly #inFlight = new Set<Promise<void>>();
  readonly #phases = new Map<InstanceId, string>();
  #desired: DesiredState__Output | undefined;
  #last: View | undefined;
  #isUnavailable = false;
  #isHeld = false;

  constructor(deps: LoopDeps) {
    this.#deps = deps;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#driver = deps.driver;
    this.#executors = new Executors({
      ...deps,
      book: this.#book,
      progressed: this.#progressed,
      drainLeft: this.#drainLeft,
    });
    deps.driver.watch(this.#untilNext.wake);
    deps.dataPath.onIdle(() => {
      if (this.#isLacking) this.#untilNext.wake();
    });
  }

  readonly #progressed = () => {
    if (this.#clock() - this.#lastProgressMs < progressEveryMs) return;
    this.#lastProgressMs = this.#clock();
    this.#untilNext.wake();
  };

  readonly #drainLeft: DrainLeft = (id, forMs) =>
    drainLeftMs(this.#desired, id, this.#deps.drainMs, forMs, this.#deps.controlTimeMs);

  async #observe(signal: AbortSignal): Promise<ReadonlyMap<InstanceId, Observed> | undefined> {
    try {
      const found = await this.#driver.list(AbortSignal.any([signal, AbortSignal.timeout(listLimitMs)]));
      if (this.#isUnavailable) this.#log.info("the driver replies again");
      this.#isUnavailable = false;
      return newestOf(found);
    } catch (error) {
      if (!this.#isUnavailable && !signal.aborted)
        this.#log.error({ err: error }, "the driver does not reply; nothing is changed");
      this.#isUnavailable = true;
      return undefined;
    }
  }

  #begin(step: Step, signal: AbortSignal): void {
    if (step.kind === "cancel") {
      this.#running.get(step.id)?.own.abort();
      return;
    }
    const isProbe = step.kind === "probe";
    const own = new AbortController();
    const { generation } = this.#book.get(step.id);
    this.#book.change(step.id, (facts) =>
      isProbe ? { ...facts, isProbing: true } : { ...facts, busy: { kind: step.kind, generation } },
    );
    const work = this.#perform(step, AbortSignal.any([signal, own.signal])).then(() => {
      this.#inFlight.delete(work);
      if (!isProbe) this.#running.delete(step.id);
      this.#book.change(step.id, (facts) => (isProbe ? { ...facts, isProbing: false } : { ...facts, busy: undefined }));
      this.#untilNext.wake();
    });
    this.#inFlight.add(work);
    if (!isProbe) this.#running.set(step.id, { own, work });
  }

  async #endNow({ instanceId, identity }: Observed, signal: AbortSignal): Promise<void> {
    this.#book.change(instanceId, (facts) => ({ ...facts, countedExit: identity }));
    await this.#driver.stop(instanceId, volumeGraceMs, signal);
  }

  async #perform(step: Step, signal: AbortSignal): Promise<void> {
    const beganMs = this.#clock();
    let failure: unknown;
    try {
      await execute(this.#executors, step, signal);
    } catch (error) {
      failure = error;
    }
    if (step.kind !== "probe") this.#trace(step, beganMs, failure);
    const facts = { step: step.kind, instance: step.id, ms: Math.round(this.#clock() - beganMs), ...whyOf(step) };
    if (failure && signal.aborted) this.#log.info(facts, "step ended early");
    else if (failure) {
      this.#log.warn({ ...facts, err: failure }, "step failed; will retry");
      await pause(retryMs, signal);
    } else this.#log[step.kind === "probe" ? "debug" : "info"](facts, "step done");
  }

  /** A trace of its own. */
  #trace(step: Step, startMs: number, failure: unknown): void {
    this.#deps.tracing
      ?.start(`reconcile ${step.kind}`, undefined, {
        startMs,
        attributes: {
          "stoker.step": step.kind,
          "stoker.instance": step.id,
          ...("why" in step ? { "stoker.why": step.why } : {}),
        },
      })
      ?.end({ error: failure instanceof Error ? failure.name : undefined });
  }

  readonly #useOf = ({ instanceId }: { readonly instanceId: string }): readonly [InstanceId, Use] => [
    instanceId as InstanceId,
    this.#deps.dataPath.stats(instanceId as InstanceId),
  ];

  #look(observed: ReadonlyMap<InstanceId, Observed>, wereBusy: readonly InstanceId[]) {
    const nowMs = this.#clock();
    const forgotten = this.#book.update(
      this.#desired?.instances ?? [],
      this.#desired?.tombstones ?? [],
      observed,
      nowMs,
    );
    const unsettled = new Set(wereBusy.filter((id) => !this.#book.get(id).busy));
    const view: View = {
      desired: this.#desired,
      observed,
      facts: this.#book.all,
      unsettled,
      isHeld: this.#isHeld,
      uses: new Map((this.#desired?.instances ?? []).filter(maySleep).map(this.#useOf)),
      controlTimeMs: this.#deps.controlTimeMs(),
      minAwakeMs: this.#deps.minAwakeMs,
      nowMs,
    };
    const rest = restOf(view);
    this.#noteWaits(view, rest);
    return { view, rest, forgotten };
  }

  #noteWaits({ desired, controlTimeMs, nowMs }: View, { lacking }: Rest): void {
    for (const [id, { lacksMemorySinceMs }] of this.#book.all)
      if (lacking.has(id) !== (lacksMemorySinceMs !== undefined))
        this.#book.change(id, (facts) => ({ ...facts, lacksMemorySinceMs: lacking.has(id) ? nowMs : undefined }));
    for (const spec of desired?.instances ?? [])
      this.#book.change(spec.instanceId as InstanceId, (facts) =>
        facts.returnedAtMs === undefined && isAwaited(spec, facts, controlTimeMs)
          ? { ...facts, returnedAtMs: Number(spec.awaitedAtMs) }
          : facts,
      );
  }

  #publish(view: View, forgotten: readonly InstanceId[]): void {
    this.#last = { ...view, facts: new Map(view.facts) };
    this.#deps.dataPath.setTargets(targetsOf(view, this.#deps.host));
    this.#deps.meter?.look(servingOf(view));
    let isNews = false;
    const { instances, removed } = reportOf(view, this.#deps.dataPath.stats);
    const now = new Map<InstanceId, string>(removed.map((id) => [id, "removed"]));
    for (const { instanceId, deployId, phase, generation, bytesDone } of instances) {
      // Every progress of a download is news: the console shows a progress bar.
      now.set(instanceId, `${phase}/${generation}/${bytesDone}`);
      this.#deps.metrics.phase(instanceId, deployId, phase);
    }
    // After `setTargets`: the data path keeps what it removes from its set.
    for (const id of [...forgotten, ...removed]) {
      this.#deps.metrics.gone(id);
      this.#deps.dataPath.forget(id);
    }
    for (const id of forgotten) this.#phases.delete(id);
    for (const [id, phase] of now) {
      isNews ||= this.#phases.get(id) !== phase;
      this.#phases.set(id, phase);
    }
    if (isNews) this.#deps.onNews();
  }

  #nextLookMs(view: View): number {
    const due = [...view.facts].flatMap(([id, facts]) => [
      ...(facts.life && !facts.isProbing ? [facts.life.nextProbeMs] : []),
      ...(facts.life?.isReady && this.#isLacking ? this.#givesWayAtMs(id, facts, facts.life, view) : []),
      facts.notBeforeMs,
    ]);
    const later = due.filter((atMs) => atMs > view.nowMs).map((atMs) => atMs - view.nowMs);
    return Math.min(this.#isLacking ? lackingMs : resyncMs, ...later);
  }

  /** Times from which on it may give its memory to another one. */
  #givesWayAtMs(id: InstanceId, facts: Facts, life: Life, view: View): readonly number[] {
    const unusedMs = view.uses.get(id)?.unusedMs;
    const givesWayMs = givesWayMsOf(facts, view);
    return [
      life.readySinceMs + minAwakeMsOf(life, view),
      ...(unusedMs === undefined || givesWayMs === undefined ? [] : [view.nowMs - unusedMs + givesWayMs]),
    ];
  }

  /** A start or a wake waits for memory. */
  get #isLacking(): boolean {
    return [...this.#book.all.values()].some(({ lacksMemorySinceMs }) => lacksMemorySinceMs !== undefined);
  }

  setDesired(next: DesiredState__Output) {
    this.#desired = next;
    this.#untilNext.wake();
  }

  /** With true, nothing is started until it is called with false. Wakes the loop. */
  readonly hold = (next: boolean) => {
    if (next === this.#isHeld) return;
    this.#isHeld = next;
    this.#untilNext.wake();
  };

  readonly report = () =>
    this.#last && {
      ...reportOf(this.#last, this.#deps.dataPath.stats),
      generation: this.#last.desired?.generation ?? "0",
    };

  /** Runs until aborted. Instances continue to run. */
  async run(signal: AbortSignal) {
    while (!signal.aborted) {
      const wereBusy = [...this.#running.keys()];
      const observed = await this.#observe(signal);
      if (signal.aborted) break;
      if (!observed) {
        await pause(retryMs, signal);
        continue;
      }
      const { view, rest, forgotten } = this.#look(observed, wereBusy);
      // Use this decision: in another, an instance that may start now no longer lacks memory and loses its place.
      for (const step of diff(view, rest)) this.#begin(step, signal);
      this.#publish(view, forgotten);
      await this.#untilNext.wait(this.#nextLookMs(view), signal);
    }
    await Promise.all(this.#inFlight);
  }

  /**
   * Runs `work` while the instances of a deployment are stopped and have no step; afterwards, also after a failure, the loop
   * starts the desired ones again. Do not call it while other such work on the deployment runs.
   */
  async whileEnded<T>(deployId: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const found = await this.#driver.list(signal);
    const specs = (this.#desired?.instances ?? []).filter((spec) => spec.deployId === deployId);
    const own = found.filter((one) => one.deployId === deployId);
    const ids = new Set([...specs.map((spec) => spec.instanceId as InstanceId), ...own.map((one) => one.instanceId)]);
    const busy = { kind: "restart", generation: Number.MAX_SAFE_INTEGER };
    try {
      for (;;) {
        // No step starts on a busy instance: mark each as busy once nothing runs on it.
        for (const id of ids) if (!this.#running.has(id)) this.#book.change(id, (facts) => ({ ...facts, busy }));
        const steps = [...ids].flatMap((id) => this.#running.get(id) ?? []);
        if (steps.length === 0) break;
        // A download may take hours; it resumes later.
        for (const id of ids) if (this.#book.get(id).busy?.kind === "fetch") this.#running.get(id)?.own.abort();
        await pause(undefined, signal, (end) => void Promise.race(steps.map(({ work }) => work)).then(end));
        signal.throwIfAborted();
      }
      const alive = (await this.#driver.list(signal)).filter(
        (one) => ids.has(one.instanceId) && one.state !== "exited",
      );
      for (const one of alive) await this.#endNow(one, signal);
      return await work();
    } finally {
      for (const id of ids)
        this.#book.change(id, (facts) => (facts.busy === busy ? { ...facts, busy: undefined } : facts));
      this.#untilNext.wake();
    }
  }

  /** Stops the model servers with the agent, after `run` has ended. Takes little more than `graceMs`. */
  async stopInstances(graceMs: number, signal: AbortSignal) {
    const found = await this.#driver.list(signal);
    const alive = found.filter((one) => one.state !== "exited");
    const results = await Promise.allSettled(alive.map((one) => this.#driver.stop(one.instanceId, graceMs, signal)));
    for (const [index, result] of results.entries())
      if (result.status === "rejected")
        this.#log.error({ err: result.reason, instance: alive[index]?.instanceId }, "could not stop a model server");
    this.#log.info({ stopped: alive.length }, "model servers stopped with the agent");
  }
}

const whyOf = (step: Step) => ("why" in step ? { why: step.why } : {});
