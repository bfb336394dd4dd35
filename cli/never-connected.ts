/** Whether a failed fetch never reached the server: then nothing was done there, and another may be asked. Pure. */
export function neverConnected(error: unknown): boolean {
  const { cause } = error as { readonly cause?: unknown };
  // Several addresses of one name: what failed is each attempt to connect.
  if (cause instanceof AggregateError) return cause.errors.every((one) => isOfConnecting(one));
  return isOfConnecting(cause);
}

/** A code alone does not tell: a connection that was made can time out, or lose its way, under the same one. */
function isOfConnecting(cause: unknown): boolean {
  const { code, syscall } = (cause ?? {}) as { readonly code?: string; readonly syscall?: string };
  return code === "UND_ERR_CONNECT_TIMEOUT" || syscall === "connect" || syscall === "getaddrinfo";
}
