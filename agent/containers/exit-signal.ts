import { constants } from "node:os";

/** Engines report an exit by signal as 128 plus its number. */
export function signalOf(exitCode: number): string | undefined {
  const found = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128);
  return exitCode > 128 ? found?.[0] : undefined;
}
