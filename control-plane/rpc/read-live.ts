// Reads a host's live figures into domain records, with bounds, because they are stored as received.
import type { GpuLoad__Output } from "../../proto/gen/stoker/fleet/v1/GpuLoad.ts";
import type { HostReport__Output } from "../../proto/gen/stoker/fleet/v1/HostReport.ts";
import type { InstanceReport__Output } from "../../proto/gen/stoker/fleet/v1/InstanceReport.ts";
import type { DeploymentId, InstanceId } from "../../proto/ids.ts";
import type { GpuLive, HostLive, InstanceLive } from "../fleet/live.ts";

const maxGpus = 64;
const maxInstances = 512;
const maxProcesses = 16;

export function readLive(wire: HostReport__Output): HostLive {
  const { load } = wire;
  return {
    load: load
      ? {
          cpuRatio: load.cpuRatio,
          memoryUsedBytes: Number(load.memoryUsedBytes),
          memoryTotalBytes: Number(load.memoryTotalBytes),
          diskFreeBytes: Number(load.diskFreeBytes),
          diskTotalBytes: Number(load.diskTotalBytes),
        }
      : undefined,
    gpus: wire.gpus.slice(0, maxGpus).map(readGpu),
    gpuSampleAgeMs: wire.gpuSampleAgeMs,
    spool: {
      records: Number(wire.spoolRecords),
      bytes: Number(wire.spoolBytes),
      oldestAgeSeconds: wire.spoolOldestAgeSeconds,
    },
    clockSkewSeconds: wire.clockSkewSeconds,
    instances: wire.instances.slice(0, maxInstances).map(readInstance),
  };
}

function readGpu(wire: GpuLoad__Output): GpuLive {
  return {
    uuid: wire.uuid.slice(0, 128),
    utilizationRatio: wire.utilizationRatio,
    memoryUsedBytes: optional(wire.memoryUsedBytes),
    memoryTotalBytes: optional(wire.memoryTotalBytes),
    temperatureCelsius: wire.temperatureCelsius,
    powerWatts: wire.powerWatts,
    powerLimitWatts: wire.powerLimitWatts,
    smClockHertz: wire.smClockHertz,
    processes: wire.processes.slice(0, maxProcesses).map((one) => ({
      pid: one.pid,
      name: one.name.slice(0, 128),
      memoryBytes: Number(one.memoryBytes),
      instanceId: one.instanceId.slice(0, 64),
    })),
  };
}

function readInstance(wire: InstanceReport__Output): InstanceLive {
  return {
    instanceId: wire.instanceId as InstanceId,
    deployId: wire.deployId as DeploymentId,
    phase: wire.phase.slice(0, 32),
    inFlight: wire.inFlight,
    waiting: wire.waiting,
    finished: Number(wire.finished),
    turnedAway: Number(wire.turnedAway),
    tokensPerSecond: wire.tokensPerSecond,
    restarts: wire.restarts,
    memoryBytes: Number(wire.memoryBytes),
    gpuUuids: wire.gpuUuids.slice(0, maxGpus),
    cpuRatio: wire.cpuRatio,
    kvCacheRatio: wire.kvCacheRatio,
  };
}

const optional = (text: string | undefined) => (text === undefined ? undefined : Number(text));
