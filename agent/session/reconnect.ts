// Full jitter: agents that lost the same control plane together must not reconnect together, not even at the first attempt.

/** First window before a control plane has sent the size of the fleet. */
const unheardSpreadMs = 1_000;
const capMs = 30_000;
/**
 * Longest of the first windows, by the size of the fleet: a few hosts may reconnect soon, and must report their spooled records
 * within thirty seconds of the control plane's return. From forty hosts on it is the cap.
 */
const longestSpreads = 10;

/**
 * `failures` in a row, 0 after a welcomed session; `random` in [0, 1); `spreadMs`: first window, which the control plane sends
 * by the size of the fleet and which doubles with every failure; undefined: the size is unknown.
 */
export function reconnectDelayMs(failures: number, random: number, spreadMs?: number): number {
  const first = spreadMs ?? unheardSpreadMs;
  const longest = Math.min(capMs, spreadMs === undefined ? capMs : spreadMs * longestSpreads);
  return random * Math.min(longest, first * 2 ** Math.min(failures, 10));
}
