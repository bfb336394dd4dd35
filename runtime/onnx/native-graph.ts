// The only module that calls onnxruntime-node: opens a graph on the best available provider.
import { existsSync, renameSync, rmSync } from "node:fs";
import { env, InferenceSession, Tensor as OrtTensor, type Tensor, type TypedTensor } from "onnxruntime-node";
import type { IoInfo, TensorValue } from "./session.ts";

// Errors are returned to the caller; the library's own lines would mix with the log.
env.logLevel = "fatal";

const spinning = {
  // Threads that spin between two steps would take cores from other processes.
  false: { intra_op: { allow_spinning: "0" } },
  true: { intra_op: { allow_spinning: "1" }, force_spinning_stop: "1" },
};

export interface OpenOptions {
  readonly path: string;
  /** Tried in this order; the first that can be had is used. */
  readonly providers: readonly string[];
  readonly threads: number;
  /** Its threads spin between the steps of a run, and sleep after it. */
  readonly spins: boolean;
  /** Grows by what is requested, not by doubling, and gives memory back: where memory is bounded. */
  readonly isMemoryTight: boolean;
  /** Beginning of the name of the file of the graph as optimised for this machine: read if it exists, else written. */
  readonly optimizedPath: string | undefined;
}

export interface OpenGraph {
  readonly graph: InferenceSession;
  readonly inputs: readonly IoInfo[];
  readonly outputs: readonly IoInfo[];
  readonly provider: string;
  /** Reason for which an earlier provider was unavailable. */
  readonly refused: readonly string[];
}

/** Throws what the last provider failed with. */
export async function openGraph(options: OpenOptions): Promise<OpenGraph> {
  const refused: string[] = [];
  for (const provider of options.providers) {
    try {
      const graph = await create(options, provider);
      return {
        graph,
        inputs: graph.inputMetadata.map(ioInfo),
        outputs: graph.outputMetadata.map(ioInfo),
        provider,
        refused,
      };
    } catch (error) {
      refused.push(`${provider}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new Error(refused.at(-1)?.replace(/^\w+: /, "") ?? "no execution provider was requested");
}

async function create(options: OpenOptions, provider: string): Promise<InferenceSession> {
  const { path, threads, spins, isMemoryTight, optimizedPath } = options;
  const base: InferenceSession.SessionOptions = {
    executionProviders: provider === "cpu" ? [{ name: "cpu", useArena: !isMemoryTight }] : [provider, "cpu"],
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
    executionMode: "sequential",
    logSeverityLevel: 4,
    extra: { session: spinning[String(spins) as "true" | "false"] },
  };
  const whole = { ...base, graphOptimizationLevel: "all" } as const;
  if (optimizedPath === undefined) return InferenceSession.create(path, whole);
  const kept = `${optimizedPath}-${env.versions.node ?? env.versions.common}.onnx`;
  // A graph optimised for this machine needs no second pass; a broken file is created again.
  if (existsSync(kept))
    try {
      return await InferenceSession.create(kept, { ...base, graphOptimizationLevel: "disabled" });
    } catch {
      rmSync(kept, { force: true });
    }
  const partial = `${kept}.${process.pid}.tmp`;
  try {
    const session = await InferenceSession.create(path, { ...whole, optimizedModelFilePath: partial });
    keepOptimized(partial, kept);
    return session;
  } catch {
    // Serve also when the disk is full or the graph is too large for one file; this load reports any other error.
    rmSync(partial, { force: true });
    return InferenceSession.create(path, whole);
  }
}

function keepOptimized(partial: string, path: string): void {
  try {
    renameSync(partial, path);
  } catch {
    // A cache that cannot be kept costs the next start a moment.
    rmSync(partial, { force: true });
  }
}

export function tensorOf({ type, data, dims }: TensorValue): Tensor {
  return new OrtTensor(type as "float32", data as Float32Array, dims) as TypedTensor<"float32">;
}

function ioInfo(metadata: InferenceSession.ValueMetadata): IoInfo {
  if (!metadata.isTensor) return { name: metadata.name, type: "not a tensor", shape: [] };
  return { name: metadata.name, type: metadata.type, shape: metadata.shape };
}
