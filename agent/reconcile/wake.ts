// A wait that ends early when something happened; a wake while nobody waits is kept for the next wait.
export interface Wake {
  readonly now: () => void;
  wait(ms: number, signal: AbortSignal): Promise<void>;
  /** Not ended by a wake. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export function createWake(): Wake {
  let isWanted = false;
  let notify = () => {};
  const pause = (ms: number, signal: AbortSignal, arm: (end: () => void) => void) =>
    new Promise<void>((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal.addEventListener("abort", end, { once: true });
      if (signal.aborted) end();
      arm(end);
    });
  return {
    now: () => {
      isWanted = true;
      notify();
    },
    async wait(ms, signal) {
      if (!isWanted) await pause(ms, signal, (end) => (notify = end));
      notify = () => {};
      isWanted = false;
    },
    sleep: (ms, signal) => pause(ms, signal, () => {}),
  };
}
