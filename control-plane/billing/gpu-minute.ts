import { gpuMinuteId, minuteMs } from "../../proto/gpu-minute.ts";
import type { DeploymentId, InstanceId, RequestId } from "../../proto/ids.ts";
import type { UsageRecord } from "../../proto/usage-record.ts";

/** How long an instance was ready in one minute of control-plane time, as its agent measured it. */
export interface GpuMinute {
  readonly id: RequestId;
  readonly instance: InstanceId;
  readonly deployId: DeploymentId;
  readonly nodeEpoch: bigint;
  readonly startMs: number;
  /** 1 to 60,000. */
  readonly readyMs: number;
  readonly endedAtMs: number;
}

/** Undefined for every other record, and for one that no honest agent writes: then it has no account either. */
export function readGpuMinute(wire: UsageRecord): GpuMinute | undefined {
  const instance = wire.instanceId as InstanceId;
  const startMs = Number(wire.admittedAtMs);
  const endedAtMs = Number(wire.endedAtMs);
  const readyMs = wire.readyMs ?? 0;
  const isWhole = Number.isSafeInteger(startMs) && startMs >= 0 && startMs % minuteMs === 0;
  if (!isWhole || wire.requestId !== gpuMinuteId(instance, startMs) || instance === "" || (wire.accountId ?? "") !== "")
    return;
  if (!(readyMs >= 1 && readyMs <= minuteMs) || wire.attempt !== 1) return;
  if (!(endedAtMs > startMs && endedAtMs <= startMs + minuteMs) || !/^\d{1,18}$/.test(wire.nodeEpoch)) return;
  return {
    id: wire.requestId as RequestId,
    instance,
    deployId: wire.deployId as DeploymentId,
    nodeEpoch: BigInt(wire.nodeEpoch),
    startMs,
    readyMs,
    endedAtMs,
  };
}
