// Classification of SQLite errors.

/** Primary code, without the detail of an extended code. */
const primaryCode = (error: unknown): number => ((error as { errcode?: number }).errcode ?? 0) & 0xff;

/** SQLITE_FULL. */
export const isFull = (error: unknown): boolean => primaryCode(error) === 13;

/** SQLITE_IOERR. */
export const isIoError = (error: unknown): boolean => primaryCode(error) === 10;

/** SQLITE_CORRUPT or SQLITE_NOTADB: a retry does not help. */
export const isCorrupt = (error: unknown): boolean => [11, 26].includes(primaryCode(error));

/** SQLITE_FULL, or SQLITE_IOERR: on a full disk a file that SQLite maps into memory fails with the latter. */
export const isDiskProblem = (error: unknown): boolean => isFull(error) || isIoError(error);
