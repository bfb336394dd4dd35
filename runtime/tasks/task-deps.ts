import type { BatchEvent } from "../batch/micro-batcher.ts";
import type { Graphs } from "../onnx/open-graph.ts";
import type { ImageAdapter } from "./images/adapter/adapter-file.ts";

/** Dependencies of every task. */
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
