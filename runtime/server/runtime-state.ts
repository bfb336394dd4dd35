// State of the process: loading -> ready -> draining; ready -> asleep -> loading -> ready. The only mutable state that the HTTP layer and main share.
import { unixSeconds } from "../../proto/unix-seconds.ts";
import type { Engine } from "./engine.ts";

export type RuntimePhase =
  | { readonly status: "loading"; readonly progress: number }
  | { readonly status: "ready"; readonly engine: Engine }
  /** The model is unloaded; its file stays in the page cache. */
  | { readonly status: "asleep" }
  | { readonly status: "draining"; readonly engine: Engine | undefined };

export class RuntimeState {
  readonly instanceId: string;
  readonly model: string;
  readonly createdSeconds = unixSeconds(Date.now());
  readonly formerAdapters = new Set<string>();
  #phase: RuntimePhase = { status: "loading", progress: 0 };
  #lastHeardMs = performance.now();
  #open = 0;

  constructor(instanceId: string, model: string) {
    this.instanceId = instanceId;
    this.model = model;
  }

  get phase(): RuntimePhase {
    return this.#phase;
  }

  get engine(): Engine | undefined {
    return "engine" in this.#phase ? this.#phase.engine : undefined;
  }

  loaded(progress: number): void {
    if (this.#phase.status === "loading") this.#phase = { status: "loading", progress };
  }

  ready(engine: Engine): void {
    if (this.#phase.status === "loading") this.#phase = { status: "ready", engine };
  }

  /** Returns the engine to close; undefined while it is not ready or answers requests. No request begins afterwards. */
  sleep(): Engine | undefined {
    if (this.#phase.status !== "ready" || this.#open > 0) return undefined;
    const { engine } = this.#phase;
    this.#phase = { status: "asleep" };
    return engine;
  }

  /** False unless it is asleep. */
  wake(): boolean {
    if (this.#phase.status !== "asleep") return false;
    this.#phase = { status: "loading", progress: 0 };
    return true;
  }

  drain(): void {
    this.#phase = { status: "draining", engine: this.engine };
  }

  /** Requests being answered, health checks apart. */
  get open(): number {
    return this.#open;
  }

  begin(): void {
    this.#open += 1;
  }

  end(): void {
    this.#open -= 1;
    this.heard();
  }

  heard(): void {
    this.#lastHeardMs = performance.now();
  }

  /** 0 while a request runs: a client that reads its stream is a sign of life. */
  get silenceMs(): number {
    return this.#open > 0 ? 0 : performance.now() - this.#lastHeardMs;
  }
}

export interface Silence {
  readonly silenceMs: number;
}

/** Calls back once the agent is gone, so that memory is not held for ever. Returns a stop. `timeoutMs` 0 = never. */
export function watchForOrphan(state: Silence, timeoutMs: number, onOrphan: () => void): () => void {
  if (timeoutMs === 0) return () => {};
  let timer: NodeJS.Timeout;
  const look = () => {
    const left = timeoutMs - state.silenceMs;
    if (left <= 0) onOrphan();
    else timer = setTimeout(look, left);
  };
  timer = setTimeout(look, timeoutMs);
  return () => clearTimeout(timer);
}
