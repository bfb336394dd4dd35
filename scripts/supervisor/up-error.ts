/** Failure of a start that the operator can fix. The message says what failed and what to do. */
export class UpError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "UpError";
  }
}
