import { asleepMinuteId, gpuMinuteId, minuteMs } from "../../proto/gpu-minute.ts";
import type { DeploymentId, InstanceId, RequestId } from "../../proto/ids.ts";
import type { UsageRecord } from "../../proto/usage-record.ts";

/** How long an instance was ready, or asleep, in one minute of control-plane time, as its agent measured it. */
export interface GpuMinute {
  readonly id: RequestId;
  readonly instance: InstanceId;
  readonly deployId: DeploymentId;
  readonly nodeEpoch: bigint;
  readonly startMs: number;
  /** Integer from 1 to 60,000. */
  readonly readyMs: number;
  readonly endedAtMs: number;
  /** The time is of sleep. */
  readonly isAsleep: boolean;
}

/** Characters of an instance or deployment id: any other text, such as one with a zero byte, fails in PostgreSQL. */
const idPattern = /^[\x21-\x7e]{1,200}$/;
/** Largest time that a Date can hold. */
const maxDateMs = 8.64e15;

/** Returns undefined for a record of another kind, and for one that no honest agent writes. */
export function readGpuMinute(wire: UsageRecord): GpuMinute | undefined {
  const instance = wire.instanceId as InstanceId;
  const startMs = Number(wire.admittedAtMs);
  const endedAtMs = Number(wire.endedAtMs);
  const readyMs = wire.readyMs ?? 0;
  if (![wire.instanceId, wire.deployId].every((id) => typeof id === "string" && idPattern.test(id))) return;
  const isMinute = startMs >= 0 && startMs < maxDateMs && startMs % minuteMs === 0;
  const isAsleep = wire.requestId === asleepMinuteId(instance, startMs);
  const isNamed = isAsleep || wire.requestId === gpuMinuteId(instance, startMs);
  if (!isMinute || !isNamed || wire.ticket !== undefined) return;
  if (!Number.isSafeInteger(readyMs) || readyMs < 1 || readyMs > minuteMs || wire.attempt !== 1) return;
  if (!(endedAtMs > startMs && endedAtMs <= startMs + minuteMs) || !/^\d{1,18}$/.test(wire.nodeEpoch)) return;
  return {
    id: wire.requestId as RequestId,
    instance,
    deployId: wire.deployId as DeploymentId,
    nodeEpoch: BigInt(wire.nodeEpoch),
    startMs,
    readyMs,
    endedAtMs,
    isAsleep,
  };
}
