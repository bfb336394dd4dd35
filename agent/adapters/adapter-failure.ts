/** Reason for which an adapter is not served here. `message`: what happened, why, and what to do. */
export class AdapterFailure extends Error {
  readonly code: string;
  /** Trying again cannot help. */
  readonly isFinal: boolean;
  constructor(code: string, message: string, options: { readonly isFinal: boolean; readonly cause?: unknown }) {
    super(message, { cause: options.cause });
    this.name = "AdapterFailure";
    this.code = code;
    this.isFinal = options.isFinal;
  }
}

/** Errors of the weights cache state whether a retry can help. */
export function asFailure(error: unknown): AdapterFailure {
  if (error instanceof AdapterFailure) return error;
  const { code, retryable, message } = error as { code?: unknown; retryable?: unknown; message: string };
  if (typeof code === "string" && typeof retryable === "boolean")
    return new AdapterFailure(code, message, { isFinal: !retryable, cause: error });
  const text = `the adapter could not be loaded: ${message}`;
  return new AdapterFailure("adapter_failed", text, { isFinal: false, cause: error });
}
