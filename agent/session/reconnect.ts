// Full jitter: agents that lost the same control plane together must not come back together, at their first attempt either.

/** The first window where no control plane has said how large the fleet is. */
const unheardSpreadMs = 1_000;
const capMs = 30_000;
/**
 * The longest window of a fleet, in its first ones: few hosts are no herd, and what their absence spooled is to be told within
 * thirty seconds of the control plane's return. From forty hosts on it is the cap.
 */
const longestSpreads = 10;

/**
 * `failures` in a row, 0 after a session that was welcomed; `random` in [0, 1); `spreadMs`: the first window as the control
 * plane told it by the size of the fleet, which doubles with every failure; undefined: nobody told, so it may be any fleet.
 */
export function reconnectDelayMs(failures: number, random: number, spreadMs?: number): number {
  const first = spreadMs ?? unheardSpreadMs;
  const longest = Math.min(capMs, spreadMs === undefined ? capMs : spreadMs * longestSpreads);
  return random * Math.min(longest, first * 2 ** Math.min(failures, 10));
}
