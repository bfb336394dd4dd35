/**
 * Waits until `ms` have passed (undefined: no limit), the signal aborts, or the function that `arm` receives is called. Never
 * rejects.
 */
export function pause(
  ms: number | undefined,
  signal: AbortSignal,
  arm: (end: () => void) => void = () => {},
): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = ms === undefined ? undefined : setTimeout(end, ms);
    signal.addEventListener("abort", end, { once: true });
    arm(end);
    if (signal.aborted) end();
  });
}
