// Dependencies of the executors of all steps.
import type { Logger } from "pino";
import type { HostFacts } from "../engines/host-facts.ts";
import type { DrainLeft } from "./drain.ts";
import type { ContainerDriver } from "./driver.ts";
import type { FactsBook } from "./facts.ts";
import type { FreeMemory } from "./gpu-memory.ts";
import type { Probe } from "./health.ts";
import type { DataPath, GpuFaults, ReconcileMetrics, WeightsPort } from "./ports.ts";
import type { ProgressWatch } from "./watch-progress.ts";

export interface StepDeps {
  readonly driver: ContainerDriver;
  readonly weights: WeightsPort;
  readonly dataPath: DataPath;
  readonly probe: Probe;
  readonly progress: ProgressWatch;
  readonly gpuMemory: FreeMemory;
  readonly gpuFaults: GpuFaults;
  readonly book: FactsBook;
  readonly host: HostFacts;
  readonly metrics: ReconcileMetrics;
  readonly progressed: () => void;
  readonly clock: () => number;
  readonly controlTimeMs: () => number;
  readonly random: () => number;
  readonly drainLeft: DrainLeft;
  /** Time that an engine has between SIGTERM, after the drain, and SIGKILL. */
  readonly stopGraceMs: number;
  readonly log: Logger;
}
