// `npm run test:nightly` (docs/NIGHTLY.md): the same tests with what takes too long for every change.

export const isNightly = process.env["STOKER_NIGHTLY"] === "1";

/** Of a test that proves the same in both, `inNightly` at the size or the clocks of real life. */
export const longer = <T>(usual: T, inNightly: T): T => (isNightly ? inNightly : usual);
