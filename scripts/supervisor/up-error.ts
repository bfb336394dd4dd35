/** A start that cannot go on, for a reason the operator can act on. The message is whole sentences: what, why, what to do. */
export class UpError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "UpError";
  }
}
