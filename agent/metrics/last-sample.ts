// A value that is sampled periodically. Reads return the last sample and its age without waiting.

export interface LastSample<Value> {
  /** Undefined before the first. */
  readonly value: Value | undefined;
  readonly ageMs: number;
  /** Samples that failed. */
  readonly failures: number;
  /** Never rejects: after a failure the last value stays and grows old. True when it succeeded. */
  look(signal: AbortSignal): Promise<boolean>;
}

/** `clock`: monotonic ms. */
export function lastSample<Value>(
  read: (signal: AbortSignal) => Promise<Value>,
  clock: () => number,
  onFailure: (error: unknown) => void = () => {},
): LastSample<Value> {
  let value: Value | undefined;
  let atMs = clock();
  let failures = 0;
  return {
    get value() {
      return value;
    },
    get ageMs() {
      return clock() - atMs;
    },
    get failures() {
      return failures;
    },
    async look(signal) {
      try {
        value = await read(signal);
        atMs = clock();
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        failures += 1;
        onFailure(error);
        return false;
      }
    },
  };
}
