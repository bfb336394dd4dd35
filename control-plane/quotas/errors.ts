import { ServiceError } from "../service-error.ts";

const askForMore = "or ask for a higher limit with POST /v1/me/rate_limit/request";

/** The account uses one model more than its limit allows. */
export class RateLimited extends ServiceError {
  readonly code = "rate_limit_exceeded";
  readonly kind: "concurrency" | "tpm";

  constructor(kind: RateLimited["kind"], message: string, retryAfterSeconds: number) {
    super(`Rate limited: ${message}`, { retryAfterSeconds });
    this.kind = kind;
  }

  static byConcurrency(limit: number): RateLimited {
    const what = `${limit} requests of your account to this model run at once, as many as it may`;
    return new RateLimited("concurrency", `${what}. Send this one again when another has ended, ${askForMore}.`, 1);
  }

  static byTokens(limit: number, retryAfterSeconds: number): RateLimited {
    const what = `your account has used its ${limit} tokens per minute of this model`;
    return new RateLimited(
      "tpm",
      `${what}. Send it again in ${retryAfterSeconds} s, ${askForMore}.`,
      retryAfterSeconds,
    );
  }
}

/** A deployment would take more GPUs of a type than the account may use. */
export class GpuLimitReached extends ServiceError {
  readonly code = "gpu_limit_reached";
  constructor(gpu: string, wanted: number, used: number, limit: number) {
    super(
      `This needs ${wanted} ${gpu} at most (num_gpus times max_instances), and ${used} of your limit of ${limit} are taken by ` +
        "your other deployments. Ask for less, delete or stop one of them, or ask for a higher limit with " +
        "POST /v1/me/gpu_pool/request.",
      { param: "gpu" },
    );
  }
}

/** A change of the GPU pool that makes no sense, or none at all. */
export class GpuRequestRefused extends ServiceError {
  readonly code = "invalid_request";
}

/** The same of one type's limit, where the contract has no 400. */
export class GpuLimitRefused extends ServiceError {
  readonly code = "invalid_request";
  constructor(cause: GpuRequestRefused) {
    super(cause.message, { param: "requested_limit" });
  }
}

/** Somebody filed, amended or ended the open request meanwhile. */
export class GpuRequestConflict extends ServiceError {
  readonly code = "request_conflict";
  constructor(openId: string | undefined) {
    super(
      openId === undefined
        ? "No GPU request is open, so none can be amended. Send expected_request_id null to file one."
        : `The request ${openId} is open: send its id as expected_request_id to replace what it asks for.`,
      { param: "expected_request_id" },
    );
  }
}

export class LimitRequestNotFound extends ServiceError {
  readonly code = "request_not_found";
  constructor() {
    super("There is no such request.");
  }
}

export class LimitRequestDecided extends ServiceError {
  readonly code = "request_decided";
  constructor() {
    super("The request is no longer open: it was decided or withdrawn.");
  }
}

/** An operator decided on something else than what is asked for now. */
export class LimitRequestMoved extends ServiceError {
  readonly code = "request_conflict";
  constructor() {
    super("The request was amended since you read it. Look at it again before you decide.");
  }
}

export class RateRequestRefused extends ServiceError {
  readonly code = "invalid_request";
  constructor(concurrent: number, tokensPerMinute: number) {
    super(
      `What is asked for is not above your limits of ${concurrent} requests at once and ${tokensPerMinute} tokens per minute.`,
      { param: "rate_limit" },
    );
  }
}

export class RateRequestOpen extends ServiceError {
  readonly code = "request_open";
  constructor() {
    super("A request for higher rate limits is open already. Your operator decides it before you can file another.", {
      retryAfterSeconds: 3_600,
    });
  }
}

export class RequestForbidden extends ServiceError {
  readonly code = "account_suspended";
  constructor(reason: string) {
    super(
      `Your account is suspended (${reason}), so its limits cannot be raised. Clear the reason or ask your operator.`,
    );
  }
}

export class QuotaAccountGone extends ServiceError {
  readonly code = "account_not_found";
  constructor() {
    super("There is no such account, or it was deleted.");
  }
}

/** Limits an operator sets that contradict each other. */
export class LimitsRefused extends ServiceError {
  readonly code = "invalid_limits";
}
