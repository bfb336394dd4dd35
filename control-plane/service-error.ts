// The base of every refusal a caller may act on. A feature says what happened; http/render-error.ts alone knows statuses.

export interface ErrorFacts {
  /** For the log only. */
  readonly cause?: unknown;
  /** When trying again may help. */
  readonly retryAfterSeconds?: number;
  /** The request field at fault, for dialects that name one. */
  readonly param?: string;
}

/** `message` is public: what happened, why, what to do. Subclasses fix `code`, a word of the closed list in the interface. */
export abstract class ServiceError extends Error {
  abstract readonly code: string;
  readonly retryAfterSeconds: number | undefined;
  readonly param: string | undefined;

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { cause: facts.cause });
    this.name = "ServiceError";
    this.retryAfterSeconds = facts.retryAfterSeconds;
    this.param = facts.param;
  }
}

/** Said by a store of what it was asked to count or to look through: how much there is decides, and how much else is asked. */
export class ReportTooLong extends ServiceError {
  readonly code = "report_too_long";
  /** `doing` begins a sentence: `Summing these days`. */
  constructor(doing: string, cause: unknown) {
    super(
      `${doing} takes longer than the 5 seconds that one report may take. Ask for a shorter time, or ask again later.`,
      { param: "from", cause },
    );
  }
}
