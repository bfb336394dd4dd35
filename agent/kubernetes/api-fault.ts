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

/** Reason of a failed call, for the operator and, if it ends an instance, for the customer. */
export function faultOf(error: unknown): DriverError {
  if (error instanceof DriverError) return error;
  const { message = "", cause } = error as ApiError;
  const status = statusOf(error);
  const said = saidBy(error);
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
      `The quota of the cluster does not allow it: ${said}. The start is retried; have the quota raised, or delete what uses it.`,
      true,
      error,
    );
  if (status === 403 && /violates PodSecurity/i.test(said))
    return fail("start_failed", `The cluster's Pod security does not allow the model server: ${said}.`, false, error);
  if (status === 400 || status === 422)
    return fail("start_failed", `The API server of the cluster does not accept the Pod: ${said}.`, false, error);
  return fail("start_failed", `The API server of the cluster refused (${status}): ${said}.`, true, error);
}

function saidBy(error: unknown): string {
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
