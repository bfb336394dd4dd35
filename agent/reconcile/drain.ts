// Time that running requests have before an instance is stopped. It is read again during the drain: the operator can change the
// deadline of a host.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { DataPath } from "./ports.ts";

/** Remaining time of an instance's drain that has taken `forMs`. */
export type DrainLeft = (id: InstanceId, forMs: number) => number;

const askEveryMs = 1_000;

/** Returns the host's deadline if the host drains that instance, otherwise `ownMs`. */
export function drainLeftMs(
  desired: Pick<DesiredState__Output, "emptiedByMs" | "moved"> | undefined,
  id: InstanceId,
  ownMs: number,
  forMs: number,
  controlTimeMs: () => number,
): number {
  // Absent in the state of an older agent.
  const byMs = desired?.moved?.includes(id) ? Number(desired.emptiedByMs) : 0;
  return byMs > 0 ? byMs - controlTimeMs() : ownMs - forMs;
}

export async function untilDrained(
  deps: {
    readonly dataPath: Pick<DataPath, "drained">;
    readonly drainLeft: DrainLeft;
    readonly clock: () => number;
  },
  id: InstanceId,
  signal: AbortSignal,
): Promise<void> {
  const beganMs = deps.clock();
  while (!signal.aborted) {
    const leftMs = deps.drainLeft(id, deps.clock() - beganMs);
    if (leftMs <= 0 || (await deps.dataPath.drained(id, Math.min(leftMs, askEveryMs), signal))) return;
  }
}
