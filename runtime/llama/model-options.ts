import type { RuntimeConfig } from "../config.ts";

type Configured =
  | "modelPath"
  | "draftModelPath"
  | "contextLength"
  | "threads"
  | "memoryBytes"
  | "gpuLayers"
  | "flashAttention"
  | "kvCacheType";

/** Options for opening a GGUF model. */
export interface ModelOptions extends Pick<RuntimeConfig, Configured> {
  readonly sequences: number;
  readonly onProgress: (ratio: number) => void;
  /** llama.cpp's own lines. */
  readonly onLog: (level: string, line: string) => void;
}
