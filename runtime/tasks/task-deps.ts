import type { BatchEvent } from "../batch/micro-batcher.ts";
import type { Graphs } from "../onnx/open-graph.ts";
import type { ImageAdapter } from "./images/adapter/adapter-file.ts";

/** What every task is opened with. */
export interface TaskDeps {
  readonly graphs: Graphs;
  readonly maxBatchSize: number;
  /** The longest that an item waits for others while nothing runs. */
  readonly latencyBudgetMs: number;
  readonly observe: (event: BatchEvent) => void;
  /** Folded into a picture model's weights as it is loaded. */
  readonly imageAdapters?: readonly ImageAdapter[];
  /** What the process may take; 0 = unbounded. */
  readonly memoryBytes: number;
  /** Where copies lie while they are loaded; undefined: the system's folder for such files. */
  readonly scratchDir: string | undefined;
}
