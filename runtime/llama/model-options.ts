// Options for opening a GGUF model.

export interface ModelOptions {
  readonly modelPath: string;
  /** A smaller model of the same vocabulary that guesses ahead. */
  readonly draftModelPath: string | undefined;
  readonly sequences: number;
  readonly contextLength: number;
  readonly threads: number;
  readonly memoryBytes: number;
  readonly gpuLayers: "auto" | number;
  readonly flashAttention: "auto" | boolean;
  readonly kvCacheType: KvCacheType;
  readonly onProgress: (ratio: number) => void;
  /** llama.cpp's own lines. */
  readonly onLog: (level: string, line: string) => void;
}

/** Type of the cells of keys and values; q8_0 halves their memory. A quantised one needs flash attention. */
export type KvCacheType = "f16" | "q8_0" | "q4_0";
