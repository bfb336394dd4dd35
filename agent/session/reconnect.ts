// Full jitter: agents that lost the same control plane together must not come back together.

const firstMs = 1_000;
const capMs = 30_000;

/** `failures` in a row, 0 after a session that was welcomed; `random` in [0, 1). */
export function reconnectDelayMs(failures: number, random: number): number {
  return random * Math.min(capMs, firstMs * 2 ** Math.min(failures, 10));
}
