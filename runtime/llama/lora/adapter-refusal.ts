import type { ThreadFailure } from "../../threads/thread-calls.ts";

// An adapter that cannot be loaded, as one sentence for the caller.
export class AdapterRefusal extends Error {
  /** It would be taken if others were unloaded. */
  readonly needsSpace: boolean;
  constructor(message: string, options: { cause?: unknown; needsSpace?: boolean } = {}) {
    super(message, options);
    this.needsSpace = options.needsSpace ?? false;
    this.name = "AdapterRefusal";
  }
}

/** Error of a thread that reads adapters. */
export const adapterError = ({ name, message, fields }: ThreadFailure): Error =>
  name === "AdapterRefusal"
    ? new AdapterRefusal(message, { needsSpace: fields["needsSpace"] === true })
    : new Error(message);
