// Data of `stoker inspect`: state of this host from its agent, also while no control plane can be reached.

import type { Inventory } from "../../proto/gen/stoker/fleet/v1/Inventory.ts";
import type { HostId } from "../../proto/ids.ts";
import type { Reconciler } from "../reconcile/loop.ts";
import type { AgentState } from "../state/open-state.ts";
import type { Control } from "./control.ts";
import type { Samples } from "./samples.ts";

/** Also the log line of each start. */
export const plainWarning =
  "data_path_plain: prompts, answers and weights to and from this host are not encrypted (STOKER_INGRESS_TLS=off)";

export interface InspectionParts {
  readonly hostId: HostId;
  readonly node: string;
  readonly version: string;
  readonly driver: string;
  readonly addresses: readonly string[];
  readonly advertise: () => string;
  readonly isPlain: boolean;
  readonly inventory: () => Inventory;
  readonly control: Pick<Control, "state" | "clock">;
  readonly spool: Pick<AgentState["spool"], "depth">;
  readonly samples: Samples;
  readonly report: Reconciler["report"];
}

export function inspection(parts: InspectionParts) {
  const { isConnected, nodeEpoch, leaseRemainingSeconds, reconnects, fencedWhy, hasKeys } = parts.control.state();
  const inventory = parts.inventory();
  const report = parts.report();
  const { gpus: loads = [], gpuSampleAgeMs } = parts.samples.figures();
  const spool = parts.spool.depth();
  const load = parts.samples.host.value;
  return {
    node_id: parts.hostId,
    name: parts.node,
    agent_version: parts.version,
    driver: parts.driver,
    advertise: parts.advertise(),
    control: {
      addresses: parts.addresses,
      connected: isConnected,
      fenced_why: fencedWhy,
      admits_requests: hasKeys,
      epoch: Number(nodeEpoch),
      lease_remaining_seconds: leaseRemainingSeconds,
      reconnects: Object.fromEntries(reconnects),
      clock_skew_seconds: parts.control.clock.skewSeconds,
    },
    usage_spool: { records: spool.records, bytes: spool.bytes, oldest_age_seconds: spool.oldestAgeSeconds },
    os: inventory.os ?? "",
    cpu_cores: inventory.cpuCores ?? 0,
    docker_version: inventory.dockerVersion ?? "",
    nvidia_driver_version: inventory.nvidiaDriverVersion ?? "",
    cuda_version: inventory.cudaVersion ?? "",
    warnings: [
      parts.isPlain ? plainWarning : "",
      inventory.recordsUnavailable ?? "",
      ...(inventory.warnings ?? []),
    ].filter((text) => text !== ""),
    load: load
      ? {
          cpu_ratio: load.cpuRatio,
          memory_used_bytes: load.memoryUsedBytes,
          memory_total_bytes: load.memoryTotalBytes,
          disk_free_bytes: load.diskFreeBytes,
          disk_total_bytes: load.diskTotalBytes,
        }
      : null,
    gpu_sample_age_seconds: loads.length > 0 ? Number(gpuSampleAgeMs ?? 0) / 1000 : null,
    gpus: (inventory.gpus ?? []).map((gpu) => {
      const now = loads.find(({ uuid }) => uuid === (gpu.parentUuid || gpu.uuid));
      const numberOf = (value: unknown) => (value === undefined ? null : Number(value));
      return {
        uuid: gpu.uuid,
        index: gpu.index,
        type: gpu.type,
        name: gpu.name,
        memory_bytes: Number(gpu.memoryBytes ?? 0),
        is_healthy: gpu.healthy,
        unhealthy_reason: gpu.unhealthyReason,
        deploy_id: report?.instances.find((one) => one.gpuUuids?.includes(gpu.uuid ?? ""))?.deployId ?? null,
        utilization_ratio: numberOf(now?.utilizationRatio),
        memory_used_bytes: numberOf(now?.memoryUsedBytes),
        temperature_celsius: numberOf(now?.temperatureCelsius),
        power_watts: numberOf(now?.powerWatts),
        processes: (now?.processes ?? []).map((one) => ({
          pid: one.pid,
          name: one.name,
          memory_bytes: Number(one.memoryBytes ?? 0),
          instance_id: one.instanceId,
        })),
      };
    }),
    generation: Number(report?.generation ?? 0),
    instances: (report?.instances ?? []).map((plain) => {
      const one = parts.samples.withUsage(plain);
      return {
        instance_id: one.instanceId,
        deploy_id: one.deployId,
        phase: one.phase,
        fail_reason: one.failCode ? `${one.failCode}: ${one.failMessage}` : "",
        in_flight: Number(one.inFlight ?? 0),
        waiting: Number(one.waiting ?? 0),
        tokens_per_second: Number(one.tokensPerSecond ?? 0),
        restarts: Number(one.restarts ?? 0),
        memory_bytes: Number(one.memoryBytes ?? 0),
        identity: one.identity,
        gpu_uuids: one.gpuUuids ?? [],
      };
    }),
  };
}
