// A process has no limit of its own, so what it holds is watched. Unlike a container it can overshoot between two looks:
// one of the reasons why this driver is for development.

const marginBytes = 64 * 1024 * 1024;

/** Undefined: no limit. A little above what was granted, because nothing here stops an allocation at the edge. */
export function memoryCeiling(grantedBytes: number): number | undefined {
  return grantedBytes > 0 ? Math.max(grantedBytes + marginBytes, grantedBytes * 1.1) : undefined;
}
