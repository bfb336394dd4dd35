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
