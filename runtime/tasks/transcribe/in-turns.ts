import { FairTurns } from "../../batch/fair-turns.ts";
import type { Recogniser } from "./recogniser.ts";

/** Tenants take turns window by window: a recording of hours lets others in after each of its windows. */
export function inTurns(recogniser: Recogniser, onHeard: (ms: number) => void) {
  const turns = new FairTurns();
  const inTurn = <T>(window: Float32Array, signal: AbortSignal, work: () => Promise<T>) =>
    turns.run(work, signal, window.length / recogniser.rate);
  const counted: Recogniser = {
    ...recogniser,
    detectLanguage: (window, signal) => inTurn(window, signal, () => recogniser.detectLanguage(window, signal)),
    hear: (window, ask, signal) =>
      inTurn(window, signal, async () => {
        const startedAt = performance.now();
        try {
          return await recogniser.hear(window, ask, signal);
        } finally {
          onHeard(performance.now() - startedAt);
        }
      }),
  };
  return { counted, load: () => ({ running: turns.running, waiting: turns.waiting }) };
}
