import { DriverError } from "../reconcile/driver.ts";

interface ApiError {
  readonly code?: unknown;
  readonly statusCode?: unknown;
  readonly body?: unknown;
  readonly message?: string;
  readonly cause?: { readonly code?: unknown; readonly message?: string };
}

/** Status of an answer of the API server; undefined: there was none. */
export function statusOf(error: unknown): number | undefined {
  const { code, statusCode } = error as ApiError;
  const status = typeof code === "number" ? code : statusCode;
  return typeof status === "number" ? status : undefined;
}

/**
 * Reason of a failed call. Customers read it if it ends an instance, so the words of the API server, which name quotas and other
 * tenants' figures, are in it only where the call is retried without end. Operators find them in the log (`wordsOf` of the cause).
 */
export function faultOf(error: unknown): DriverError {
  if (error instanceof DriverError) return error;
  const { message = "", cause } = error as ApiError;
  const status = statusOf(error);
  const said = wordsOf(error);
  if (status === undefined)
    return fail(
      "engine_away",
      `The API server of the cluster does not answer (${cause?.code ?? cause?.message ?? message}); running Pods are found again.`,
      true,
      error,
    );
  if (status === 401)
    return fail("engine_away", "The API server refuses the credentials of this agent's service account.", true, error);
  if (status === 429 || status >= 500)
    return fail("engine_away", `The API server of the cluster is not ready (${status}): ${said}`, true, error);
  if (status === 403 && /exceeded quota|forbidden: (maximum|minimum) /i.test(said))
    return fail(
      "quota_exceeded",
      "The quota of the host's cluster does not allow another model server now. The start is retried; if this persists, inform your operator.",
      true,
      error,
    );
  if (status === 403 && /violates PodSecurity/i.test(said))
    return fail(
      "start_failed",
      "The security rules of the host's cluster do not allow the model server: inform your operator.",
      false,
      error,
    );
  if (status === 400 || status === 422)
    return fail(
      "start_failed",
      `The host's cluster does not accept the model server (${status}): inform your operator.`,
      false,
      error,
    );
  return fail(
    "start_failed",
    `The host's cluster refused the model server (${status}). The start is retried; if this persists, inform your operator.`,
    true,
    error,
  );
}

export function wordsOf(error: unknown): string {
  const { body, message = "" } = error as ApiError;
  const said =
    typeof body === "string" ? (messageIn(body) ?? body) : (body as { message?: string } | undefined)?.message;
  return (said || message).replaceAll(/\s+/g, " ").trim().slice(0, 500).replace(/\.$/, "");
}

function messageIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { message?: string }).message;
  } catch {
    return undefined;
  }
}

function fail(code: DriverError["code"], text: string, retryable: boolean, cause: unknown): DriverError {
  return new DriverError(code, text, { retryable, cause });
}
