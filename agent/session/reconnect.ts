// Full jitter: agents that lost the same control plane together must not come back together, at their first attempt either.

/** The first window where no control plane has said how large the fleet is. */
export const ownSpreadMs = 1_000;
const capMs = 30_000;

/**
 * `failures` in a row, 0 after a session that was welcomed; `random` in [0, 1); `spreadMs`: the first window, which doubles
 * with every failure.
 */
export function reconnectDelayMs(failures: number, random: number, spreadMs: number = ownSpreadMs): number {
  return random * Math.min(capMs, spreadMs * 2 ** Math.min(failures, 10));
}
