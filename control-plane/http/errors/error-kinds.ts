// Maps each kind of error to status and retry advice; nothing else does.
import type { ErrorKind } from "../../service-error.ts";

export type MessagesErrorType =
  | "invalid_request_error"
  | "authentication_error"
  | "billing_error"
  | "permission_error"
  | "not_found_error"
  | "conflict_error"
  | "request_too_large"
  | "rate_limit_error"
  | "timeout_error"
  | "overloaded_error"
  | "api_error";

interface KindAnswer {
  readonly status: number;
  /** `error.type` of the OpenAI shape, by which SDKs choose their exception. */
  readonly type: "invalid_request_error" | "authentication_error" | "rate_limit_error" | "server_error";
  /** `error.type` of Anthropic's shape. */
  readonly messagesType: MessagesErrorType;
  /** In the OpenAPI description. */
  readonly meaning: string;
  /** Sent when the error itself names no time. */
  readonly retryAfterSeconds?: number;
  /** SDKs retry some statuses on their own; false disables this. */
  readonly shouldRetry?: false;
}

const type = "invalid_request_error";

export const errorKinds: Readonly<Record<ErrorKind, KindAnswer>> = {
  bad_request: {
    status: 400,
    type,
    messagesType: "invalid_request_error",
    meaning: "The request is malformed, or not possible in the current state",
  },
  unauthenticated: {
    status: 401,
    type: "authentication_error",
    messagesType: "authentication_error",
    meaning: "Invalid or missing API key",
  },
  payment_required: {
    status: 402,
    type,
    messagesType: "billing_error",
    meaning: "Insufficient funds",
    shouldRetry: false,
  },
  forbidden: { status: 403, type, messagesType: "permission_error", meaning: "Not allowed" },
  not_found: { status: 404, type, messagesType: "not_found_error", meaning: "Not found" },
  unsupported: { status: 405, type, messagesType: "invalid_request_error", meaning: "The model does not support this" },
  request_timeout: { status: 408, type, messagesType: "timeout_error", meaning: "Nothing happened in time; try again" },
  conflict: {
    status: 409,
    type,
    messagesType: "conflict_error",
    meaning: "Conflict with the current state",
    shouldRetry: false,
  },
  gone: { status: 410, type, messagesType: "not_found_error", meaning: "Deleted" },
  too_large: { status: 413, type, messagesType: "request_too_large", meaning: "The request body is too large" },
  invalid: { status: 422, type, messagesType: "invalid_request_error", meaning: "A field is missing or invalid" },
  suspended: { status: 423, type, messagesType: "permission_error", meaning: "The account is suspended" },
  rate_limited: {
    status: 429,
    type: "rate_limit_error",
    messagesType: "rate_limit_error",
    meaning: "Too many requests; see Retry-After",
    retryAfterSeconds: 1,
  },
  internal: {
    status: 500,
    type: "server_error",
    messagesType: "api_error",
    meaning: "Internal error; report the request id to your operator",
  },
  upstream_failed: {
    status: 502,
    type: "server_error",
    messagesType: "api_error",
    meaning: "The model's instance failed",
  },
  unavailable: {
    status: 503,
    type: "server_error",
    messagesType: "overloaded_error",
    meaning: "Temporarily unavailable; see Retry-After",
    retryAfterSeconds: 1,
  },
  upstream_timeout: {
    status: 504,
    type: "server_error",
    messagesType: "timeout_error",
    meaning: "The model's instance did not respond in time",
  },
};
