import {
  badRequest,
  conflict,
  type ErrorFacts,
  type ErrorParams,
  forbidden,
  invalid,
  notFound,
  rateLimited,
  ServiceError,
} from "../service-error.ts";

const askForMore = "or request a higher limit with POST /v1/me/rate_limit/request";

type Limit = "concurrency" | "tpm" | "key_rpm" | "key_tpm";

/** The account is at its concurrency or token limit for a model, or its key at its own limit. */
export class RateLimited extends ServiceError<ErrorParams & { readonly limit: Limit }> {
  constructor(limit: Limit, message: string, retryAfterSeconds: number) {
    super("rate_limited", "rate_limit_exceeded", `Rate limited: ${message}`, { retryAfterSeconds, params: { limit } });
  }

  static byConcurrency(limit: number): RateLimited {
    const what = `your account can have at most ${limit} concurrent requests to this model`;
    return new RateLimited(
      "concurrency",
      `${what}. Send this one again when another one has finished, ${askForMore}.`,
      1,
    );
  }

  static byTokens(limit: number, retryAfterSeconds: number): RateLimited {
    const what = `your account can use at most ${limit} tokens per minute of this model`;
    return new RateLimited(
      "tpm",
      `${what}. Send it again in ${retryAfterSeconds} s, ${askForMore}.`,
      retryAfterSeconds,
    );
  }

  static byKey(limit: "key_rpm" | "key_tpm", value: number, retryAfterSeconds: number): RateLimited {
    const what = `this API key can ${limit === "key_rpm" ? "send" : "use"} at most ${value} ${limit === "key_rpm" ? "requests" : "tokens"} per minute`;
    return new RateLimited(
      limit,
      `${what}. Send it again in ${retryAfterSeconds} s, or use another key.`,
      retryAfterSeconds,
    );
  }
}

/** A deployment would exceed the account's GPU limit for a type. */
export class GpuLimitReached extends ServiceError {
  constructor(gpu: string, wanted: number, used: number, limit: number) {
    super(
      "invalid",
      "gpu_limit_reached",
      `This needs up to ${wanted} ${gpu} (num_gpus times max_instances), and your other deployments use ${used} of your limit of ${limit}. ` +
        "Request fewer, delete or stop a deployment, or request a higher limit with " +
        "POST /v1/me/gpu_pool/request.",
      { param: "gpu" },
    );
  }
}

/** A request for a GPU pool that is invalid or changes nothing. */
export class GpuRequestRefused extends ServiceError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super("bad_request", "invalid_request", message, facts);
  }
}

/** The same for one type's limit, where the contract has no 400. */
export const gpuLimitRefused = (cause: GpuRequestRefused) =>
  invalid("invalid_request", cause.message, { param: "requested_limit" });

/** The open request was filed, amended or closed by someone else. */
export const gpuRequestConflict = (openId: string | undefined) =>
  conflict(
    "request_conflict",
    openId === undefined
      ? "No GPU request is open, so none can be amended. Send expected_request_id null to file one."
      : `Request ${openId} is open. Send its id as expected_request_id to amend it.`,
    { param: "expected_request_id" },
  );

export const limitRequestNotFound = () => notFound("request_not_found", "Request not found.");

export const limitRequestDecided = () =>
  conflict("request_decided", "The request is no longer open: it was decided or withdrawn.");

/** The request was amended after the operator read it. */
export const limitRequestMoved = () =>
  conflict("request_conflict", "The request was amended since you read it. Read it again before you decide.");

export const rateRequestRefused = (concurrent: number, tokensPerMinute: number) =>
  badRequest(
    "invalid_request",
    `The requested limits must be above your limits of ${concurrent} concurrent requests and ${tokensPerMinute} tokens per minute.`,
    { param: "rate_limit" },
  );

export const rateRequestOpen = () =>
  rateLimited("request_open", "A request for higher rate limits is already open. Wait for your operator's decision.", {
    retryAfterSeconds: 3_600,
  });

export const requestForbidden = (reason: string) =>
  forbidden(
    "account_suspended",
    `Your account is suspended (${reason}), so its limits cannot be raised. Clear the reason or ask your operator.`,
  );

export const quotaAccountGone = () => notFound("account_not_found", "Account not found.");

/** Limits set by an operator that contradict each other. */
export const limitsRefused = (message: string) => invalid("invalid_limits", message);
