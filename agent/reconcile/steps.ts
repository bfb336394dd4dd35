// One executor per step kind: a kind without one does not compile. Each is idempotent and stores its results in the facts.
import { chmod, mkdir, rename, utimes, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { authorizationFor, type EngineAddress } from "../../proto/bearer-secret.ts";
import { boundedText } from "../../proto/bounded-text.ts";
import { pause } from "../../proto/pause.ts";
import { sleepPathsOf } from "../engines/engine-traits.ts";
import type { PlanFile } from "../engines/host-facts.ts";
import { needsWeights, planInstance } from "../engines/plan-instance.ts";
import { type Attempts, createAttempts } from "./attempts.ts";
import { crashBackOff, startBackOff } from "./back-off.ts";
import type { Step } from "./diff.ts";
import { untilDrained } from "./drain.ts";
import { failureOf, isEngineUnavailable, lostGpu, reasonOfExit, withLostGpu } from "./failure.ts";
import { createFetch } from "./fetch.ts";
import { untilFree } from "./gpu-memory.ts";
import { afterProbe, confirmedAsleep, unknownAfterSleep } from "./health.ts";
import { readModelFacts } from "./model-facts.ts";
import type { GpuFault } from "./ports.ts";
import { newPulse } from "./progress.ts";
import { maySleep } from "./rest.ts";
import type { StepDeps } from "./step-deps.ts";
import { watchProgress } from "./watch-progress.ts";

type Of<Kind extends Step["kind"]> = Extract<Step, { kind: Kind }>;
type StepExecutors = { readonly [Kind in Step["kind"]]: (step: Of<Kind>, signal: AbortSignal) => Promise<void> };

const ready = { kind: "ready", contextLength: 0 } as const;
const startLimitMs = 120_000;
const engineLimitMs = 60_000;
/** vLLM copies its weights to the memory of the host. */
const sleepLimitMs = 120_000;
/** A large model is read from the page cache, or from the disk if that was taken. */
const wakeLimitMs = 10 * 60_000;

export class Executors implements StepExecutors {
  readonly fetch: StepExecutors["fetch"];
  readonly #deps: StepDeps;
  readonly #metrics: StepDeps["metrics"];
  readonly #dataPath: StepDeps["dataPath"];
  readonly #book: StepDeps["book"];
  readonly #driver: StepDeps["driver"];
  readonly #attempts: Attempts;

  constructor(deps: StepDeps) {
    this.#deps = deps;
    this.#metrics = deps.metrics;
    this.#dataPath = deps.dataPath;
    this.#book = deps.book;
    this.#driver = deps.driver;
    this.#attempts = createAttempts(deps);
    this.fetch = createFetch(deps, this.#attempts);
  }

  async #end(id: Step["id"], identity: string, mayDrain: boolean, signal: AbortSignal): Promise<void> {
    // A stop by this agent is not a crash.
    this.#book.change(id, (facts) => ({ ...facts, countedExit: identity }));
    this.#dataPath.markDraining(id);
    if (mayDrain) {
      await untilDrained(this.#deps, id, signal);
      // The agent stops: its data path drains by itself, and the engine continues to run.
      signal.throwIfAborted();
      // Engines differ in what SIGTERM does to running requests: some cut them, some wait, some neither end nor serve them.
      await this.#dataPath.cut(id);
    }
    const { stopGraceMs } = this.#deps;
    await this.#driver.stop(id, stopGraceMs, bounded(signal, stopGraceMs + engineLimitMs));
  }

  async #gpusHeld(step: Of<"start">, uuids: readonly string[], signal: AbortSignal): Promise<string | undefined> {
    if (uuids.length === 0) return undefined;
    const setWaiting = (waitingFor: string | undefined) =>
      this.#book.change(step.id, (facts) => ({ ...facts, waitingFor }));
    const onWait = (held: string): void => {
      if (this.#book.get(step.id).waitingFor === undefined)
        this.#deps.log.info({ instance: step.id, held }, "waiting for the memory of a GPU");
      setWaiting(held);
      this.#deps.progressed();
    };
    try {
      return await untilFree(uuids, this.#deps.gpuMemory, pause, onWait, signal, Number(step.spec.gpuMemoryBytes));
    } finally {
      setWaiting(undefined);
    }
  }

  /** Returns a fault of a GPU of this instance that is newer than its start here. */
  async #newGpuFault(
    { id, spec }: Of<"count-exit"> | Of<"restart">,
    signal: AbortSignal,
  ): Promise<GpuFault | undefined> {
    const old = new Set(this.#book.get(id).oldGpuFaults);
    return (await this.#deps.gpuFaults(spec.gpuUuids, signal)).find((fault) => !old.has(fault.id));
  }

  async start(step: Of<"start">, signal: AbortSignal) {
    const beganMs = this.#deps.clock();
    const here = this.#book.get(step.id).weights;
    const modelPath = here.kind === "here" && needsWeights(step.spec) ? here.modelPath : undefined;
    const draftPath = here.kind === "here" ? here.draftPath : undefined;
    const model = modelPath === undefined ? undefined : await readModelFacts(modelPath);
    const outcome = planInstance(step.spec, modelPath, this.#deps.host, { draftPath, model });
    if (!outcome.ok) return this.#attempts.failed(step, outcome, { isTerminal: true, backOff: startBackOff });
    try {
      const held = await this.#gpusHeld(step, outcome.plan.gpuUuids, signal);
      if (held !== undefined) {
        const why = {
          code: "gpu_memory_held",
          message: `${held}; the model server is not started into what is left.`,
        };
        return await this.#attempts.failed(step, why, { isTerminal: false, backOff: crashBackOff });
      }
      await writeFiles(outcome.files);
      for (const folder of outcome.folders ?? []) await mkdir(folder, { recursive: true, mode: 0o755 });
      await openFolders(outcome.openFolders ?? []);
      const oldGpuFaults = (await this.#deps.gpuFaults(step.spec.gpuUuids, signal)).map((fault) => fault.id);
      await this.#driver.start(outcome.plan, bounded(signal, startLimitMs));
      this.#book.change(step.id, (facts) => ({ ...facts, wasStartedHere: true, oldGpuFaults }));
      this.#metrics.took("create", (this.#deps.clock() - beganMs) / 1000);
    } catch (error) {
      signal.throwIfAborted();
      if (isEngineUnavailable(error)) throw error;
      const { isTerminal, ...why } = failureOf(error, "start_failed");
      await this.#attempts.failed(step, why, { isTerminal, backOff: crashBackOff });
    }
  }

  async refuse({ kind, id, holder, gpuUuid }: Of<"refuse">) {
    // Name the other instance only in the log: customers read the reason.
    this.#deps.log.error(
      { alert: "gpu_given_twice", instance: id, holder, gpu: gpuUuid },
      "two instances are given one GPU",
    );
    const message = `another instance on this host has the GPU ${gpuUuid}, so this one is not started; the start is retried. If this persists, deploy it again to have it placed elsewhere, or inform your operator.`;
    await this.#attempts.failed(
      { kind, id },
      { code: "gpu_in_use", message },
      { isTerminal: false, backOff: crashBackOff },
    );
  }

  async probe(step: Of<"probe">, signal: AbortSignal) {
    const { seen, spec } = step;
    const isExternal = seen.identity.startsWith("external:");
    const { origin, secret, api } = seen;
    const life = this.#book.get(step.id).life;
    const target = {
      origin,
      secret,
      api,
      instanceId: step.id,
      servedModelName: spec?.servedModelName,
      isExternal,
      sleepPath: spec && (maySleep(spec) || life?.isAsleep) ? sleepPathsOf(spec)?.isAsleep : undefined,
      // A server that comes back may be another version.
      formats: life?.isReady ? life.formats : undefined,
    };
    // The driver saw its port open; an agent instance is not probed further. A rental stays ready while it runs, because the
    // customer may stop the SSH server.
    const isOpenRental = seen.ssh !== undefined && this.#book.get(step.id).life?.isReady === true;
    const isOwn = spec?.engine === "agent_instance" || isOpenRental;
    const found = isOwn ? ready : await this.#deps.probe(target, signal);
    const known = this.#book.get(step.id).life;
    if (known?.identity !== seen.identity) return;
    const { health, pulse } = await watchProgress(this.#deps, step, found, known.pulse, signal);
    const nowMs = this.#deps.clock();
    const before = this.#book.get(step.id);
    if (before.life?.identity !== seen.identity) return;
    // It fell asleep or woke since it was asked; it is probed again.
    const isResting = before.busy?.kind === "sleep" || before.busy?.kind === "wake";
    if (isResting || before.life.isReady !== life?.isReady || before.life.isAsleep !== life.isAsleep) return;
    const next = { ...afterProbe(before.life, health, nowMs), pulse };
    this.#book.change(step.id, (facts) => ({
      ...facts,
      life: next,
      hasServed: facts.hasServed || next.isReady,
      isStoppedAsleep: facts.isStoppedAsleep && !next.isReady,
    }));
    if (next.isAsleep) return;
    // A wake whose reply was lost.
    if (next.isReady && !before.life.isReady) this.#dataPath.resume(step.id);
    if (next.isReady === before.life.isReady) return;
    const loadMs = Math.round(nowMs - next.sinceMs);
    if (!next.isReady) return this.#deps.log.warn({ instance: step.id, why: next.trouble }, "instance no longer ready");
    this.#deps.log.info({ instance: step.id, loadMs, totalMs: Math.round(nowMs - before.beganMs) }, "instance ready");
    if (!before.wasStartedHere) return;
    this.#metrics.took("load", loadMs / 1000);
    if (before.restarts === 0) this.#metrics.took("ready", (nowMs - before.beganMs) / 1000);
  }

  async "count-exit"(step: Of<"count-exit">, signal: AbortSignal) {
    const { seen, spec } = step;
    const facts = this.#book.get(step.id);
    // Before any await: the data path drops instances that no longer run.
    const deathsByRequest = this.#dataPath.serverEnded(step.id);
    this.#book.change(step.id, (now) => ({ ...now, countedExit: seen.identity }));
    const life = facts.life?.identity === seen.identity ? facts.life : undefined;
    const wasWitnessed = facts.wasStartedHere || life !== undefined;
    // Ended while no agent ran: without a sign of failure it was stopped.
    if (!wasWitnessed && !seen.oomKilled && !seen.exitCode) return;
    const isRental = spec.engine === "container";
    const reason = reasonOfExit(seen, Number(spec.memoryBytes), await this.#attempts.tail(step), { isRental });
    const why = withLostGpu(reason, await this.#newGpuFault(step, signal));
    this.#attempts.restarted(step.id, spec.deployId, why.reason);
    const hasRefused = seen.exitCode !== undefined && !seen.oomKilled && !facts.hasServed;
    await this.#attempts.failed(step, why.failure, {
      isTerminal: why.isTerminal,
      backOff: hasRefused ? startBackOff : crashBackOff,
      upMs: life && this.#deps.clock() - life.sinceMs,
      deathsByRequest: why.reason === "gpu_lost" ? 0 : deathsByRequest,
    });
  }

  async restart(step: Of<"restart">, signal: AbortSignal) {
    const { seen, spec } = step;
    const { life } = this.#book.get(step.id);
    const trouble = life?.trouble ?? "";
    const upMs = life && this.#deps.clock() - life.sinceMs;
    const isStuck = step.why === "health" && !isExternalSpec(spec);
    const deathsByRequest = isStuck ? this.#dataPath.serverEnded(step.id) : 0;
    await this.#end(step.id, seen.identity, false, signal);
    const lost = life?.isFrozen ? "engine_frozen" : "health_lost";
    const code = step.why === "health" ? lost : isExternalSpec(spec) ? "external_unreachable" : "start_timeout";
    const fault = await this.#newGpuFault(step, signal);
    this.#attempts.restarted(step.id, spec.deployId, fault ? "gpu_lost" : "health");
    const how = {
      isTerminal: step.why === "start_timeout",
      backOff: crashBackOff,
      upMs,
      deathsByRequest: fault ? 0 : deathsByRequest,
    };
    await this.#attempts.failed(step, fault ? lostGpu(fault) : { code, message: messages[code](trouble) }, how);
  }

  async stop(step: Of<"stop">, signal: AbortSignal) {
    await this.#end(step.id, step.seen.identity, step.why !== "failed", signal);
    // Counted, but not among the restarts that its owner sees as a problem.
    if (step.why === "superseded") this.#metrics.restarted(step.seen.deployId, "operator");
  }

  async sleep({ id, seen, spec, why }: Of<"sleep">, signal: AbortSignal) {
    const { unusedMs } = this.#dataPath.stats(id);
    // A request that arrived since the decision is served first; an engine that reports a sleep serves none.
    if (!this.#dataPath.rest(id) && why !== "unconfirmed") return;
    const paths = sleepPathsOf(spec);
    const beganMs = this.#deps.clock();
    try {
      if (paths) await callEngine(seen, paths.sleep, bounded(signal, sleepLimitMs));
      else await this.#end(id, seen.identity, false, signal);
    } catch (error) {
      // It may sleep: its data path refuses requests until a probe finds it ready.
      const nowMs = this.#deps.clock();
      this.#book.change(id, (facts) => ({
        ...facts,
        life: facts.life && unknownAfterSleep(facts.life, nowMs),
      }));
      throw error;
    }
    const nowMs = this.#deps.clock();
    const controlTimeMs = this.#deps.controlTimeMs();
    const usedAtMs = unusedMs === undefined ? 0 : controlTimeMs - (nowMs - beganMs) - unusedMs;
    this.#deps.log.info({ instance: id, why }, "instance asleep");
    this.#book.change(id, (facts) => ({
      ...facts,
      // A request that waits since before the confirmation has not woken it.
      ...(why === "unconfirmed" ? {} : { sleptAtMs: controlTimeMs, usedAtMs, returnedAtMs: undefined }),
      isStoppedAsleep: paths === undefined,
      life: facts.life && paths ? confirmedAsleep(facts.life, nowMs) : facts.life,
    }));
  }

  async wake({ id, seen, spec }: Of<"wake">, signal: AbortSignal) {
    const beganMs = this.#deps.clock();
    const paths = sleepPathsOf(spec);
    // If its reply is lost, it may be awake.
    this.#book.change(id, ({ life, ...facts }) => ({ ...facts, life: life && { ...life, isSleepConfirmed: false } }));
    if (paths) await callEngine(seen, paths.wake, bounded(signal, wakeLimitMs));
    const nowMs = this.#deps.clock();
    this.#metrics.took("wake", (nowMs - beganMs) / 1000);
    this.#deps.log.info({ instance: id, wakeMs: Math.round(nowMs - beganMs) }, "instance awake");
    this.#book.change(id, (facts) => {
      if (facts.life?.identity !== seen.identity) return facts;
      const { contextLength, formats } = facts.life;
      const life = afterProbe(facts.life, { kind: "ready", contextLength, formats }, nowMs);
      return { ...facts, life: { ...life, wakeMs: nowMs - beganMs, pulse: newPulse(nowMs) } };
    });
    this.#dataPath.resume(id);
  }

  async remove(step: Of<"remove">, signal: AbortSignal) {
    await this.#driver.remove(step.id, bounded(signal, engineLimitMs));
  }

  // The loop itself ends the running step.
  async cancel() {}
}

/** Throws when it does not reply with 200. */
async function callEngine(engine: EngineAddress, path: string, signal: AbortSignal): Promise<void> {
  const headers = authorizationFor(engine);
  const answer = await fetch(engine.origin + path, { method: "POST", headers, redirect: "error", signal });
  const text = await boundedText(answer.body, 64 * 1024);
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${text.slice(0, 500)}`);
}

const bounded = (signal: AbortSignal, limitMs: number) => AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);

export function execute(executors: StepExecutors, step: Step, signal: AbortSignal): Promise<void> {
  return (executors[step.kind] as (step: Step, signal: AbortSignal) => Promise<void>)(step, signal);
}

const isExternalSpec = (spec: { readonly engine: string }) => spec.engine === "external";

const messages = {
  health_lost: (trouble: string) => `the model server ran and stopped answering (${trouble}); it was ended`,
  engine_frozen: (trouble: string) => `the model server is frozen: ${trouble}; it was ended and is started again`,
  start_timeout: (trouble: string) =>
    `the model server made no progress for 30 minutes (${trouble}); see its log, or deploy a smaller model.`,
  external_unreachable: (trouble: string) =>
    `the external server did not become ready within 5 minutes (${trouble}); check its address, that it runs and that it lists the model, and deploy again.`,
} as const;

/** Updates the age of the files, which shows their last use. */
async function openFolders(folders: readonly string[]): Promise<void> {
  const now = new Date();
  for (const folder of folders) {
    await mkdir(folder, { recursive: true });
    // The container runs as another user; the parent folder keeps all other users out.
    await chmod(folder, 0o777);
    await utimes(folder, now, now);
  }
}

async function writeFiles(files: readonly PlanFile[]): Promise<void> {
  for (const { path, text } of files) {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(`${path}.new`, text, { mode: 0o644 });
    await rename(`${path}.new`, path);
  }
}
