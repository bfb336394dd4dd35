// The engine of everything that is no text generation: its routes, and what its batches hold.
import type { BatchEvent } from "../batch/micro-batcher.ts";
import type { Graphs } from "../onnx/open-graph.ts";
import type { AdapterHost, Engine, TaskRoute } from "../server/engine.ts";
import type { ImageAdapter } from "./images/adapter/adapter-file.ts";

export interface TaskDeps {
  readonly graphs: Graphs;
  readonly maxBatchSize: number;
  /** Maximum time an item waits for others while nothing runs. */
  readonly latencyBudgetMs: number;
  readonly observe: (event: BatchEvent) => void;
  /** Folded into a picture model's weights as it is loaded. */
  readonly imageAdapters?: readonly ImageAdapter[];
  /** Memory limit of the process; 0 = unbounded. */
  readonly memoryBytes: number;
  /** Folder of copies while they are loaded; undefined: the system's temporary folder. */
  readonly scratchDir: string | undefined;
}

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

type EngineFacts = Pick<Engine, "maxBatchSize" | "provider" | "warnings" | "close">;

export function taskEngine({ contextLength, routes, adapterHost, load }: OpenTask, facts: EngineFacts): Engine {
  return {
    ...facts,
    contextLength,
    tasks: routes,
    adapterHost,
    load() {
      // Taken one by one: a batcher has them as getters, which a spread would leave out.
      const { running, waiting } = load();
      return { running, waiting, tokensGenerated: 0, kvUsageRatio: 0 };
    },
  };
}
