// The one place that calls onnxruntime-node: opens a graph on the best provider that can be had.
import { existsSync, renameSync, rmSync } from "node:fs";
import { env, InferenceSession, Tensor as OrtTensor, type Tensor, type TypedTensor } from "onnxruntime-node";
import type { IoInfo, TensorValue } from "./session.ts";
import type { Opened, OpenOptions } from "./session-messages.ts";

// What goes wrong is told to whoever asked; the library's own lines would stand between the log's.
env.logLevel = "fatal";

const spinning = {
  // Threads that spin between two steps take the cores from whoever shares the machine.
  false: { intra_op: { allow_spinning: "0" } },
  true: { intra_op: { allow_spinning: "1" }, force_spinning_stop: "1" },
};

/** Throws what the last provider failed with. */
export async function openGraph(
  options: OpenOptions,
): Promise<Omit<Opened, "session"> & { readonly graph: InferenceSession }> {
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
  throw new Error(refused.at(-1)?.replace(/^\w+: /, "") ?? "no execution provider was asked for");
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
  // What was optimised for this machine needs no second pass; what is broken is made anew.
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
    // A full disk, or a graph too large for one file, is no reason not to serve: whatever else it is, this tells.
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
