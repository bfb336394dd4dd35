/** True if a failed fetch did not connect, so that the request had no effect and may go to another server. */
export function neverConnected(error: unknown): boolean {
  const { cause } = error as { readonly cause?: unknown };
  // A name with several addresses: one error for each attempt.
  if (cause instanceof AggregateError) return cause.errors.every((one) => isConnectError(one));
  return isConnectError(cause);
}

/** The code is not enough: an established connection can fail with the same one. */
function isConnectError(cause: unknown): boolean {
  const { code, syscall } = (cause ?? {}) as { readonly code?: string; readonly syscall?: string };
  return code === "UND_ERR_CONNECT_TIMEOUT" || syscall === "connect" || syscall === "getaddrinfo";
}
