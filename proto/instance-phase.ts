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

/** It holds its place and serves: now, or once a request has woken it. */
export const isServing = (phase: InstancePhase): boolean =>
  phase === "ready" || phase === "asleep" || phase === "waking";

export function isInstancePhase(text: string): text is InstancePhase {
  return (instancePhases as readonly string[]).includes(text);
}
