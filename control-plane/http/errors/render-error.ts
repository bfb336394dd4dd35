// Renders errors for clients in the dialect of their surface. error-kinds.ts maps kinds to statuses.
import { explanationOf, isErrorCode } from "../../error-codes.ts";
import { DatabaseUnavailable, ServiceError } from "../../service-error.ts";
import { bodyLimitBytes } from "../body/json-body.ts";
import type { Refusal } from "./error-body.ts";
import { type Dialect, errorBody } from "./error-body.ts";
import { errorKinds } from "./error-kinds.ts";
import { bodyTooLarge, ProtocolError } from "./errors.ts";
import { type Detail, detailOf, maxDetails, placeOf, type SchemaError, summaryOf } from "./validation-detail.ts";

/** Maximum characters of one part of a path. */
export const maxParamLength = 512;

export interface RenderedError {
  readonly status: number;
  /** Names and values, in turn. */
  readonly headers: readonly string[];
  readonly body: string;
}

export function renderError(refusal: Refusal, dialect: Dialect, requestId: string): RenderedError {
  const { kind, status, code, retryAfterSeconds, phase, etaSeconds } = refusal;
  const headers = ["content-type", `application/${dialect === "scim" ? "scim+json" : "json"}; charset=utf-8`];
  if (isErrorCode(code)) headers.push("link", `<${explanationOf(code)}>; rel="help"`);
  if (kind === "unauthenticated") headers.push("www-authenticate", "Bearer");
  if (retryAfterSeconds !== undefined) {
    const seconds = Math.max(1, Math.ceil(retryAfterSeconds));
    headers.push("retry-after", String(seconds));
    if (kind === "rate_limited") headers.push("ratelimit", `"api";r=0;t=${seconds}`);
  }
  if (errorKinds[kind].shouldRetry === false) headers.push("x-should-retry", "false");
  // The rest of the body may still arrive and must not be read as the next request.
  if (code === "body_stalled") headers.push("connection", "close");
  if (phase !== undefined) headers.push("x-stoker-phase", phase);
  if (etaSeconds !== undefined) headers.push("x-stoker-eta", String(etaSeconds));
  return { status, headers, body: JSON.stringify(errorBody(refusal, dialect, requestId)) };
}

/** Error of Fastify for an invalid body or query, or for a request that it cannot read. */
interface FrameworkError {
  readonly code?: string;
  readonly statusCode?: number;
  readonly validation?: readonly SchemaError[];
  readonly validationContext?: string;
}

/** Faults of one part of a request, under Fastify's name of that part. */
export interface PartFaults {
  readonly context: string;
  readonly errors: readonly SchemaError[];
}

/** `limitBytes`: limit of the route's bodies. `others`: faults of the other parts of the request. */
export function refusalOf(
  error: unknown,
  limitBytes = bodyLimitBytes,
  others: (invalid: string) => readonly PartFaults[] = () => [],
): Refusal {
  if (error instanceof ServiceError) return refused(error);
  const { validation, validationContext, code, statusCode } = (error ?? {}) as FrameworkError;
  if (validation) {
    const more = others(validationContext ?? "body").map(({ context, errors }) => detailOf(errors, placeOf(context)));
    const detail = [detailOf(validation, placeOf(validationContext)), ...more].flat().slice(0, maxDetails);
    // Only the body as a whole has no name.
    const param = detail[0]?.loc.slice(1).join(".") || undefined;
    return refused(new ServiceError("invalid", "validation_error", summaryOf(detail), { param }), detail);
  }
  // PostgreSQL's codes for a NUL character, which its texts cannot contain.
  if (code === "22021" || code === "22P05") {
    const message = "A text in the request contains a NUL character. Remove it.";
    const detail = [{ loc: ["body"], msg: "a text contains a NUL character", type: "string_pattern" }];
    return refused(new ServiceError("invalid", "validation_error", message), detail);
  }
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") return refused(bodyTooLarge(limitBytes));
  if (code === "FST_ERR_BAD_URL") {
    const message = "The path of this request contains an invalid %-escape. Encode it as UTF-8.";
    return refused(new ServiceError("bad_request", "bad_request", message));
  }
  if (code === "FST_ERR_MAX_PARAM_LENGTH") {
    const message = `A part of the path must be at most ${maxParamLength} characters.`;
    return refused(new ProtocolError(414, "path_too_long", message));
  }
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) {
    const message = "The request cannot be read. Check its headers and its length.";
    return refused(new ProtocolError(statusCode, "bad_request", message));
  }
  const message = "Internal error. Report the request id to your operator.";
  return refused(new ServiceError("internal", "internal_error", message, { cause: error }));
}

function refused(error: ServiceError, detail?: readonly Detail[]): Refusal {
  const { kind, code, message, param, params, cause } = error;
  const answer = errorKinds[kind];
  return {
    kind,
    status: error instanceof ProtocolError ? error.status : answer.status,
    message,
    code,
    param,
    detail: detail ?? (kind === "invalid" ? [detailOfField(error)] : undefined),
    retryAfterSeconds: error.retryAfterSeconds ?? answer.retryAfterSeconds,
    phase: params.phase,
    etaSeconds: params.etaSeconds,
    // The error itself, so that the log recognises an outage and limits its lines (outage-log.ts).
    cause: error instanceof DatabaseUnavailable ? error : cause,
  };
}

function detailOfField({ message, param, in: place, isMissing }: ServiceError): Detail {
  const loc = [place, ...(param?.split(".") ?? [])];
  const msg = isMissing && param !== undefined ? "Field required" : message;
  return { loc, msg, type: isMissing ? "missing" : "value_error" };
}
