// How long what runs on an instance may take to end before the instance is stopped. The answer is asked for again while it
// goes on: an operator may change his mind about when a host is to be empty.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { InstanceId } from "../../proto/ids.ts";
import type { DataPath } from "./ports.ts";

/** What is left of an instance's drain that has taken `forMs`. */
export type DrainLeft = (id: InstanceId, forMs: number) => number;

const askEveryMs = 1_000;

/** The host's deadline where it is being emptied of that instance, else `ownMs`: what its owner ended waits for no operator. */
export function drainLeftMs(
  desired: Pick<DesiredState__Output, "emptiedByMs" | "moved"> | undefined,
  id: InstanceId,
  ownMs: number,
  forMs: number,
  controlTimeMs: () => number,
): number {
  // Absent in what an older agent kept.
  const byMs = desired?.moved?.includes(id) ? Number(desired.emptiedByMs) : 0;
  return byMs > 0 ? byMs - controlTimeMs() : ownMs - forMs;
}

/** Until nothing runs there, or for as long as there is time. */
export async function untilDrained(
  deps: {
    readonly dataPath: Pick<DataPath, "drained">;
    readonly drainLeft: DrainLeft;
    /** Monotonic ms. */
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
