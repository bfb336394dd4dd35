// The engine of a model, by what its files are: GGUF goes to llama.cpp, everything else to onnxruntime.
import type { Logger } from "pino";
import type { BatchEvent } from "./batch/micro-batcher.ts";
import type { RuntimeConfig } from "./config.ts";
import type { Engine } from "./server/engine.ts";
import type { RuntimeMetrics } from "./server/metrics.ts";
import type { RuntimeState } from "./server/runtime-state.ts";

/** Throws LoadFailure. The libraries are read here, so that the server answers /health before. */
export async function openEngine(
  config: RuntimeConfig,
  state: RuntimeState,
  metrics: RuntimeMetrics,
  log: Logger,
): Promise<Engine> {
  if (!config.modelPath.endsWith(".gguf")) {
    const { openTasks } = await import("./tasks/open-tasks.ts");
    return openTasks({ ...config, hasGpu: config.gpuLayers !== 0, observe: (event) => observe(metrics, event) });
  }
  const { openEngine: openLlama } = await import("./llama/open-engine.ts");
  return openLlama({
    ...config,
    sequences: config.maxBatchSize,
    onProgress: (progress) => state.loaded(progress),
    onQueued: (seconds) => metrics.queued(seconds),
    onRound: (size, seconds) => metrics.round(size, seconds),
    onLog: (level, line) =>
      level === "error" || level === "fatal"
        ? log.warn({ llama: line.trim() }, "llama.cpp")
        : log[isOption(line) ? "info" : "debug"]({ llama: line.trim() }, "llama.cpp"),
  });
}

/** Lines in which llama.cpp says what it made of the options. */
const isOption = (line: string) => /flash[ _]attn|flash attention|K \(\w+\):/i.test(line);

function observe(metrics: RuntimeMetrics, event: BatchEvent): void {
  if (event.kind === "started") metrics.queued(event.queuedMs / 1000);
  else if (event.kind === "ran") metrics.round(event.items, event.ms / 1000);
  else metrics.split(event.isMemory ? "memory" : "failure");
}
