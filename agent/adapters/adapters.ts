// LoRA adapters of this host's instances: fetched, checked, shown to the engine, and loaded while it serves. Level-triggered:
// each pass compares the desired adapters with those that each engine holds. The state of an engine is dropped when it ends.
// INVARIANTS: an adapter is reported as ready only while requests may name it. A removed adapter is first reported as gone and
// unloaded later, so that no request is routed to it in between. An engine loads one adapter at a time, and every load is
// awaited, also of an adapter that is no longer desired, because a load cannot be cancelled.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Logger } from "pino";
import type { Adapter__Output } from "../../proto/gen/stoker/fleet/v1/Adapter.ts";
import type { AdapterReport } from "../../proto/gen/stoker/fleet/v1/AdapterReport.ts";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceSpec__Output } from "../../proto/gen/stoker/fleet/v1/InstanceSpec.ts";
import type { Weights__Output } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import { WakeablePause } from "../../proto/repeat.ts";
import type { RouteTarget } from "../reconcile/ports.ts";
import { type AdapterFiles, type AdapterSource, adapterConfig, adapterWeights } from "./adapter-files.ts";
import { whyAdapterRefused, whyImageAdapterRefused } from "./check-adapter.ts";
import { AdapterFailure, asFailure, type EngineAdapters, engineAdapters } from "./engine-adapters.ts";

interface AdapterDeps {
  readonly ensure: (weights: Weights__Output, signal: AbortSignal) => Promise<Fetched>;
  readonly files: AdapterFiles;
  readonly onNews: () => void;
  readonly clock: () => number;
  /** Delay between the report that an adapter is leaving and its unloading. */
  readonly leaveMs?: number;
  readonly retryMs?: number;
  readonly log: Logger;
}

/** As the weights cache has it: a repository's folder, or an image adapter's one file. */
interface Fetched {
  readonly modelPath: string;
  readonly commit: string;
}

type One =
  | { readonly phase: "downloading" | "loading"; readonly stop: AbortController }
  /** `commit`: empty if unknown, such as for an adapter that an older agent loaded. */
  | { readonly phase: "ready"; readonly commit: string }
  | { readonly phase: "leaving"; readonly sinceMs: number; readonly commit: string }
  | { readonly phase: "unloading"; readonly commit: string }
  | { readonly phase: "failed"; readonly failure: AdapterFailure; readonly retryAtMs: number; readonly times: number };

interface Life {
  readonly identity: string;
  readonly ones: Map<string, One>;
  isRead: boolean;
  turn: Promise<unknown>;
}

const idForm = /^[A-Za-z0-9][\w.-]{0,63}$/;
/** Commit of a repository, or the sha256 of one file. */
const commitForm = /^([0-9a-f]{40}|[0-9a-f]{64})$/;
const everyMs = 1_000;
const longestRetryMs = 600_000;

export class Adapters {
  readonly #deps: AdapterDeps;
  readonly #files: AdapterFiles;
  readonly #clock: () => number;
  readonly #log: Logger;
  readonly #leaveMs: number;
  readonly #retryMs: number;
  #wanted = new Map<string, InstanceSpec__Output>();
  #targets: readonly RouteTarget[] = [];
  #hasDesired = false;
  #mustSweep = false;
  readonly #lives = new Map<string, Life>();
  readonly #running = new Set<Promise<void>>();
  readonly #untilNext = new WakeablePause();
  readonly #wake = this.#untilNext.wake;

  constructor(deps: AdapterDeps) {
    this.#deps = deps;
    this.#files = deps.files;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#leaveMs = deps.leaveMs ?? 5_000;
    this.#retryMs = deps.retryMs ?? 5_000;
  }

  readonly #set = (life: Life, id: string, one: One | undefined): void => {
    if (one) life.ones.set(id, one);
    else life.ones.delete(id);
    this.#deps.onNews();
  };

  readonly #isRestless = () =>
    [...this.#lives.values()].some(
      ({ ones, isRead }) =>
        !isRead ||
        [...ones.values()].some((one) => one.phase === "leaving" || (one.phase === "failed" && !one.failure.isFinal)),
    );

  #lifeOf({ instanceId, origin, identity = origin }: RouteTarget): Life {
    const known = this.#lives.get(instanceId);
    if (known?.identity === identity) return known;
    if (known) this.#end(known);
    const fresh: Life = { identity, ones: new Map(), isRead: false, turn: Promise.resolve() };
    this.#lives.set(instanceId, fresh);
    return fresh;
  }

  #end(life: Life): void {
    for (const one of life.ones.values()) if ("stop" in one) one.stop.abort();
    life.ones.clear();
  }

  #begin(work: Promise<void>): void {
    const tracked = work.finally(() => {
      this.#running.delete(tracked);
      this.#wake();
    });
    this.#running.add(tracked);
  }

  async #load(
    spec: InstanceSpec__Output,
    target: RouteTarget,
    life: Life,
    engine: EngineAdapters,
    { id, weights }: Adapter__Output,
    signal: AbortSignal,
  ): Promise<void> {
    const before = life.ones.get(id);
    const stop = new AbortController();
    const both = AbortSignal.any([signal, stop.signal]);
    this.#set(life, id, { phase: "downloading", stop });
    try {
      if (!weights) throw new AdapterFailure("bad_spec", "the adapter names no repository.", { isFinal: true });
      const { modelPath, commit } = await this.#deps.ensure(weights, both);
      const source = sourceIn(modelPath, spec.task);
      const why = await whyRefused(source, spec, engine.maxRank);
      if (why !== undefined)
        throw new AdapterFailure(
          "adapter_refused",
          `the adapter ${nameOf(weights)} is refused: ${why}; use it with the model it was made for, or train it again.`,
          { isFinal: true },
        );
      const mine = life.turn.then(async () => {
        both.throwIfAborted();
        this.#set(life, id, { phase: "loading", stop });
        const path = await this.#files.show(source, spec.instanceId, id);
        await engine.load(target, id, path, signal);
        // Optional: without it the next agent does not know the commit.
        await this.#files
          .noteHeld(spec.instanceId, id, { engineIdentity: life.identity, commit })
          .catch((error) =>
            this.#log.warn({ err: error, adapter: id }, "the commit of an adapter could not be written down"),
          );
      });
      life.turn = mine.catch(() => {});
      await mine;
      // If it was dropped in the meantime, it leaves like any other; if it is desired again, it is ready.
      if (stop.signal.aborted) this.#set(life, id, { phase: "leaving", sinceMs: this.#clock(), commit });
      else this.#set(life, id, { phase: "ready", commit });
      this.#log.info({ instance: spec.instanceId, adapter: id, commit }, "adapter loaded");
    } catch (error) {
      // No longer desired, or the engine ended: the next pass reads what the engine holds.
      if (both.aborted) {
        life.isRead = false;
        if (life.ones.has(id)) this.#set(life, id, undefined);
        return;
      }
      const failure = asFailure(error);
      const times = before?.phase === "failed" ? before.times + 1 : 1;
      const pauseMs = Math.min(longestRetryMs, this.#retryMs * 2 ** (times - 1));
      this.#set(life, id, { phase: "failed", failure, times, retryAtMs: this.#clock() + pauseMs });
      this.#log.warn({ err: failure, instance: spec.instanceId, adapter: id }, "an adapter was not loaded");
    }
  }

  async #unload(
    instanceId: string,
    target: RouteTarget,
    life: Life,
    engine: EngineAdapters,
    id: string,
    commit: string,
    signal: AbortSignal,
  ) {
    const mine = life.turn.then(() => engine.unload(target, id, signal));
    life.turn = mine.catch(() => {});
    try {
      await mine;
      await this.#files.hide(instanceId, id);
      life.ones.delete(id);
      this.#retryFull(life);
      this.#log.info({ instance: instanceId, adapter: id }, "adapter unloaded");
    } catch (error) {
      if (life.ones.has(id)) life.ones.set(id, { phase: "leaving", sinceMs: this.#clock(), commit });
      if (!signal.aborted)
        this.#log.warn({ err: error, adapter: id }, "an adapter was not unloaded; it is tried again");
    }
  }

  async #read(target: RouteTarget, life: Life, engine: EngineAdapters, signal: AbortSignal): Promise<void> {
    const names = await engine.list(target, signal);
    life.isRead = true;
    for (const name of names) {
      if (!idForm.test(name) || life.ones.has(name)) continue;
      const commit = await this.#files.heldCommit(target.instanceId, name, life.identity);
      if (!life.ones.has(name)) this.#set(life, name, { phase: "ready", commit });
    }
  }

  /** Retries adapters that did not fit, after another one was unloaded. */
  #retryFull({ ones }: Life): void {
    for (const [id, one] of ones)
      if (one.phase === "failed" && one.failure.code === "adapter_no_room")
        ones.set(id, { ...one, retryAtMs: this.#clock() });
  }

  async #reconcile(spec: InstanceSpec__Output, target: RouteTarget, signal: AbortSignal): Promise<void> {
    const life = this.#lifeOf(target);
    const list = spec.adapters.filter(({ id }) => idForm.test(id));
    const engine = engineAdapters(spec.engine);
    if (!engine) {
      // Unsupported: never retried.
      life.isRead = true;
      for (const { id } of list) if (!life.ones.has(id)) this.#set(life, id, unsupported(spec.engine));
      return;
    }
    // Also without desired adapters: an earlier agent may have loaded some.
    if (!life.isRead) await this.#read(target, life, engine, signal);
    // Unload an adapter of another commit first, and load the desired commit in a later pass.
    const right = list.filter((adapter) => !isOther(life.ones.get(adapter.id), adapter));
    const ids = new Set(right.map(({ id }) => id));
    for (const adapter of right) {
      const one = life.ones.get(adapter.id);
      if (one?.phase === "leaving") this.#set(life, adapter.id, { phase: "ready", commit: one.commit });
      const isDue = one?.phase === "failed" && !one.failure.isFinal && this.#clock() >= one.retryAtMs;
      if (!one || isDue) this.#begin(this.#load(spec, target, life, engine, adapter, signal));
    }
    for (const [id, one] of life.ones) {
      if (ids.has(id)) continue;
      if (one.phase === "failed") {
        // An engine that did not reply in time may have loaded it by now.
        life.isRead = false;
        this.#set(life, id, undefined);
      }
      if (one.phase === "ready") this.#set(life, id, { phase: "leaving", sinceMs: this.#clock(), commit: one.commit });
      else if (one.phase === "leaving" && this.#clock() - one.sinceMs >= this.#leaveMs) {
        life.ones.set(id, { phase: "unloading", commit: one.commit });
        this.#begin(this.#unload(spec.instanceId, target, life, engine, id, one.commit, signal));
      } else if ("stop" in one) one.stop.abort();
    }
  }

  async #pass(signal: AbortSignal): Promise<void> {
    const seen = new Set<string>(this.#targets.map(({ instanceId }) => instanceId));
    for (const [id, life] of this.#lives) {
      if (seen.has(id)) continue;
      this.#end(life);
      this.#lives.delete(id);
    }
    await Promise.all(
      this.#targets.map(async (target) => {
        const spec = this.#wanted.get(target.instanceId);
        if (!spec || !target.ready || target.draining) return;
        await this.#reconcile(spec, target, signal).catch((error) => {
          if (!signal.aborted)
            this.#log.debug({ err: error, instance: target.instanceId }, "an engine's adapters are unknown");
        });
      }),
    );
    if (this.#hasDesired && this.#mustSweep) {
      this.#mustSweep = false;
      await this.#files.keep(new Set([...this.#wanted.keys(), ...seen]));
    }
  }

  setDesired(desired: DesiredState__Output) {
    this.#wanted = new Map(desired.instances.map((spec) => [spec.instanceId, spec]));
    this.#hasDesired = true;
    this.#mustSweep = true;
    this.#wake();
  }

  setTargets(next: readonly RouteTarget[]) {
    const isSame = textOf(next) === textOf(this.#targets);
    this.#targets = next;
    if (!isSame) this.#wake();
  }

  readonly report = (instanceId: string) =>
    [...(this.#lives.get(instanceId)?.ones ?? [])].flatMap(([id, one]): AdapterReport[] => {
      if (one.phase === "leaving" || one.phase === "unloading") return [];
      if (one.phase === "ready") return [{ id, phase: one.phase, commit: one.commit }];
      if (one.phase !== "failed") return [{ id, phase: one.phase }];
      const { code, message, isFinal } = one.failure;
      return [{ id, phase: one.phase, failCode: code, failMessage: message.slice(0, 2_000), isFinal }];
    });

  async run(signal: AbortSignal) {
    while (!signal.aborted) {
      await this.#pass(signal).catch((error) => {
        if (!signal.aborted) this.#log.error({ err: error }, "could not reconcile the adapters; will retry");
      });
      await this.#untilNext.wait(this.#isRestless() ? everyMs : undefined, signal);
    }
    await Promise.all(this.#running);
  }
}

/** Returns only the host of a URL: the rest may be secret. */
const nameOf = ({ repo, url }: Weights__Output) => (url === "" ? repo : `from ${URL.parse(url)?.host ?? "its URL"}`);

const imageTask = "text-to-image";

function sourceIn(modelPath: string, task: string): AdapterSource {
  const folder = task === imageTask ? dirname(modelPath) : modelPath;
  const config = join(folder, adapterConfig);
  const weights = task === imageTask ? modelPath : join(folder, adapterWeights);
  return { weights, config: existsSync(config) ? config : undefined };
}

async function whyRefused(
  { weights, config }: AdapterSource,
  spec: InstanceSpec__Output,
  maxRank: number,
): Promise<string | undefined> {
  const text = config === undefined ? undefined : await readFile(config, "utf8");
  if (spec.task === imageTask) return whyImageAdapterRefused(weights, text, maxRank);
  return whyAdapterRefused(text ?? "", spec.weights?.repo ?? "", maxRank);
}

/** Returns true if the loaded commit differs from the desired one; false if either is unknown. */
function isOther(one: One | undefined, { weights }: Adapter__Output): boolean {
  if (!one || !("commit" in one) || one.commit === "" || !weights) return false;
  const wanted = weights.url === "" ? weights.revision : weights.sha256;
  return commitForm.test(wanted) && wanted !== one.commit;
}

function unsupported(engine: string): One {
  const why = `the engine ${engine.slice(0, 40)} takes no adapters while it runs; deploy the base on our own runtime or vLLM.`;
  const failure = new AdapterFailure("adapter_unsupported", why, { isFinal: true });
  return { phase: "failed", failure, retryAtMs: 0, times: 1 };
}

const textOf = (targets: readonly RouteTarget[]) =>
  JSON.stringify(
    targets.map(({ instanceId, identity, origin, ready, draining }) => [instanceId, identity, origin, ready, draining]),
  );
