// Description of a demo model: location of its weights, capabilities and default price.
import type { TokenRates } from "../../proto/money.ts";

export interface DemoModel {
  /** Short name, for command lines. */
  readonly key: string;
  /** The public model name, and the hub repository the weights were made from. */
  readonly modelName: string;
  readonly repo: string;
  readonly description: string;
  readonly license: string;
  readonly task: "text-generation" | "embeddings" | "text-to-speech" | "automatic-speech-recognition" | "text-to-image";
  readonly weights: DemoPackage | DemoFolder;
  /** Native inference request, where the task's usual example does not apply. */
  readonly example?: Readonly<Record<string, unknown>>;
  /** Trained context length in tokens; below, the default of an instance; 0: the model's own. */
  readonly contextLength: number;
  readonly servedContextLength: number;
  readonly maxBatchSize: number;
  readonly rates: TokenRates;
  /** Memory of one instance with the served context for every sequence of the batch, model server included. */
  readonly memoryBytes: number;
  /** Part of it per token of a sequence; undefined: no per-token state. */
  readonly kvBytesPerToken?: number;
}

/** Memory of one instance with this many concurrent requests of this length. `contextLength` 0: the model's own. */
export function demoMemoryBytes(
  demo: DemoModel,
  use: { readonly maxBatchSize: number; readonly contextLength: number },
): number {
  const served = demo.maxBatchSize * demo.servedContextLength;
  const tokens = use.maxBatchSize * (use.contextLength || demo.contextLength);
  return demo.memoryBytes + (tokens - served) * (demo.kvBytesPerToken ?? 0);
}

/** A Python package with the file; read as a zip and never run. */
export interface DemoPackage {
  readonly kind: "package";
  readonly pypiPackage: string;
  readonly pypiVersion: string;
  readonly pypiPath: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** Several files: from the hub, or from a folder of that name on the hosts. */
export interface DemoFolder {
  readonly kind: "folder";
  readonly format: "onnx";
  readonly name: string;
  /** Assembly of that folder from packages, without a hub. */
  readonly assembly?: DemoAssembly;
}

export interface DemoAssembly {
  /** Total size. */
  readonly sizeBytes: number;
  readonly files: readonly DemoFile[];
  readonly archive?: DemoArchive;
}

export interface DemoFile {
  readonly to: string;
  readonly sha256: string;
  /** Concatenated in order. */
  readonly pieces: readonly Omit<DemoPackage, "kind">[];
}

/** A folder of an npm package; read as an archive and never run. */
export interface DemoArchive {
  readonly npmPackage: string;
  readonly npmVersion: string;
  /** Hash of the archive. */
  readonly sha256: string;
  /** The folder, in the package and in the result. */
  readonly path: string;
}
