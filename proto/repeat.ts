// Loops that run in the background until a signal aborts.
import { pause } from "./pause.ts";

/** Runs `work` and pauses for `everyMs`, until aborted. Rejects only with an error of `work`. */
export async function repeat(everyMs: number, signal: AbortSignal, work: () => unknown): Promise<void> {
  while (!signal.aborted) {
    await work();
    await pause(everyMs, signal);
  }
}

/** Work that runs once between `start` and `stop`; `stop` resolves when it has ended. */
export function background(run: (signal: AbortSignal) => Promise<unknown>) {
  const stopping = new AbortController();
  let running: Promise<unknown> | undefined;
  return {
    start(): void {
      running ??= run(stopping.signal);
    },
    async stop(): Promise<void> {
      stopping.abort();
      await running;
    },
  };
}

/** Pause of a loop that `wake` ends. A wake between two pauses ends the next one at once, so that none is missed. */
export class WakeablePause {
  #isWoken = false;
  #end = (): void => {};

  readonly wake = (): void => {
    this.#isWoken = true;
    this.#end();
  };

  /** Waits for `ms` (undefined: no limit), a wake or the signal. Never rejects. */
  async wait(ms: number | undefined, signal: AbortSignal): Promise<void> {
    if (!this.#isWoken)
      await pause(ms, signal, (end) => {
        this.#end = end;
      });
    this.#isWoken = false;
  }
}
