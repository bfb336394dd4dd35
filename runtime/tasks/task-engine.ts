// The engine of everything that is no text generation: its routes, and what its batches hold.
import type { AdapterHost, Engine, EngineLoad, TaskRoute } from "../server/engine.ts";

/** Parts of a task for the engine that serves it. */
export interface OpenTask {
  readonly contextLength: number;
  readonly routes: ReadonlyMap<string, TaskRoute>;
  /** Undefined: it takes no adapters while it runs. */
  readonly adapterHost?: AdapterHost;
  /** Releases the task's resources besides its graphs. */
  readonly close?: () => Promise<void>;
  readonly load: () => { readonly running: number; readonly waiting: number };
}

export interface EngineFacts {
  readonly maxBatchSize: number;
  readonly provider: string;
  readonly warnings: readonly string[];
  close(): Promise<void>;
}

export class TaskEngine implements Engine {
  readonly contextLength: number;
  readonly maxBatchSize: number;
  readonly provider: string;
  readonly warnings: readonly string[];
  readonly tasks: ReadonlyMap<string, TaskRoute>;
  readonly adapterHost: AdapterHost | undefined;
  readonly #task: OpenTask;
  readonly #close: () => Promise<void>;

  constructor(task: OpenTask, facts: EngineFacts) {
    this.#task = task;
    this.contextLength = task.contextLength;
    this.maxBatchSize = facts.maxBatchSize;
    this.provider = facts.provider;
    this.warnings = facts.warnings;
    this.tasks = task.routes;
    this.adapterHost = task.adapterHost;
    this.#close = () => facts.close();
  }

  load(): EngineLoad {
    // Taken one by one: a batcher has them as getters, which a spread would leave out.
    const { running, waiting } = this.#task.load();
    return { running, waiting, tokensGenerated: 0, kvUsageRatio: 0 };
  }

  close(): Promise<void> {
    return this.#close();
  }
}
