// `npm run test:nightly` (docs/NIGHTLY.md): the same tests with what takes too long for every change.

export const isNightly = process.env["STOKER_NIGHTLY"] === "1";

/** Of a test that proves the same in both, `inNightly` at the size or the clocks of real life. */
export const longer = <T>(usual: T, inNightly: T): T => (isNightly ? inNightly : usual);

/**
 * A promise's own figure at night. At every change, where the machine may do anything else besides, five times as much: still
 * less than what the next slower way would take.
 */
export const promisedMs = (ms: number): number => longer(5 * ms, ms);
