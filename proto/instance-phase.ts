/** Phase of an instance, as an agent reports it (`InstanceReport.phase`). */
export const instancePhases = [
  "pending",
  "downloading",
  "creating",
  "loading",
  "ready",
  "draining",
  "stopped",
  "failed",
] as const;
export type InstancePhase = (typeof instancePhases)[number];

export function isInstancePhase(text: string): text is InstancePhase {
  return (instancePhases as readonly string[]).includes(text);
}
