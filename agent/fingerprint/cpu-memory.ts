import { availableParallelism, cpus, totalmem } from "node:os";
import type { Probe } from "./probe.ts";

export interface CpuMemoryFacts {
  readonly cpuModel: string;
  readonly cpuCores: number;
  readonly memoryBytes: number;
}

export function cpuMemoryProbe(): Probe<CpuMemoryFacts> {
  return {
    name: "cpu-memory",
    async read() {
      // An agent inside a container offers what the container was given, not what the machine has.
      const limit = process.constrainedMemory();
      const memoryBytes = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
      return { cpuModel: cpus()[0]?.model.trim() ?? "", cpuCores: availableParallelism(), memoryBytes };
    },
  };
}
