/** Phase of an instance, as an agent reports it (`InstanceReport.phase`). */
export const instancePhases = [
  "pending",
  "downloading",
  "creating",
  "loading",
  "ready",
  "asleep",
  "waking",
  "draining",
  "stopped",
  "failed",
] as const;
export type InstancePhase = (typeof instancePhases)[number];

/** Phases in which its engine has given its memory up, or takes it back. */
export const sleepingPhases: readonly InstancePhase[] = ["asleep", "waking"];

export const isSleeping = (phase: InstancePhase): boolean => sleepingPhases.includes(phase);

/** Phases in which it holds its place and serves: now, or once a request has woken it. */
export const servingPhases: readonly InstancePhase[] = ["ready", ...sleepingPhases];

export const isServing = (phase: InstancePhase): boolean => servingPhases.includes(phase);

export function isInstancePhase(text: string): text is InstancePhase {
  return (instancePhases as readonly string[]).includes(text);
}

/** Why an instance was started again. `operator`: replaced by another version, which the restarts of a report do not count. */
export const restartReasons = ["oom", "exit", "health", "gpu_lost", "operator"] as const;
export type RestartReason = (typeof restartReasons)[number];
