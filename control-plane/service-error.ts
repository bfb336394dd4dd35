// Errors that a caller may act on. A feature declares its own beside its code and says of which kind they are;
// only http/errors/error-kinds.ts maps kinds to statuses.

import type { ErrorCode } from "./error-codes.ts";

export type ErrorKind =
  /** The request cannot be read, or does not fit the current state. */
  | "bad_request"
  | "unauthenticated"
  | "payment_required"
  | "forbidden"
  | "not_found"
  /** The path or the model has no such operation. */
  | "unsupported"
  /** Nothing happened, or nothing was received, in time. */
  | "request_timeout"
  | "conflict"
  /** It existed and was deleted. */
  | "gone"
  | "too_large"
  /** A field is missing, out of range or refers to something that cannot be used. */
  | "invalid"
  | "suspended"
  | "rate_limited"
  /** A defect of this installation. */
  | "internal"
  | "upstream_failed"
  | "unavailable"
  | "upstream_timeout";

/** Facts of an error beside its message. A class may add its own; those named here are sent as headers. */
export interface ErrorParams {
  /** State of a model that is not ready. */
  readonly phase?: string;
  /** Seconds until it is expected to be ready. */
  readonly etaSeconds?: number | undefined;
}

export interface ErrorFacts<Params extends ErrorParams = ErrorParams> {
  /** For the log only. */
  readonly cause?: unknown;
  /** When a retry may help. Left out, the kind decides. */
  readonly retryAfterSeconds?: number;
  /** Request field at fault, with dots for nested fields. */
  readonly param?: string | undefined;
  /** Part of the request that contains `param`. Default: the body. */
  readonly in?: "query" | "header";
  /** `param`, or the whole body, is missing. */
  readonly isMissing?: boolean;
  readonly params?: Params;
}

/** A code that a foreign model server chose. It is passed on, and explained nowhere. */
export type ForeignCode = string & { readonly isForeign: unique symbol };

/** `message` is public: what is wrong, the limit or the allowed values, what to do. `code`: error-codes.ts. */
export class ServiceError<Params extends ErrorParams = ErrorParams> extends Error {
  readonly kind: ErrorKind;
  readonly code: string;
  readonly params: Params;
  readonly retryAfterSeconds: number | undefined;
  readonly param: string | undefined;
  readonly in: "body" | "query" | "header";
  readonly isMissing: boolean;

  constructor(kind: ErrorKind, code: ErrorCode | ForeignCode, message: string, facts: ErrorFacts<Params> = {}) {
    super(message, { cause: facts.cause });
    this.name = "ServiceError";
    this.kind = kind;
    this.code = code;
    this.params = facts.params ?? ({} as Params);
    this.retryAfterSeconds = facts.retryAfterSeconds;
    this.param = facts.param;
    this.in = facts.in ?? "body";
    this.isMissing = facts.isMissing ?? false;
  }
}

/** A start that cannot succeed until the operator acts. The message is for the operator. */
export class OperatorError extends Error {
  /**
   * As in sysexits.h: EX_CONFIG (78) where another start fails the same way, so that `up` prints the message and stops; EX_TEMPFAIL (75) where
   * another start may succeed without the operator.
   */
  readonly exitCode: 1 | 75 | 78 = 1;
}

type Declare = (code: ErrorCode, message: string, facts?: ErrorFacts) => ServiceError;
const ofKind =
  (kind: ErrorKind): Declare =>
  (code, message, facts) =>
    new ServiceError(kind, code, message, facts);

// For errors that no other code has to recognise; one that is caught is a class of its own.
export const badRequest = ofKind("bad_request");
export const conflict = ofKind("conflict");
export const forbidden = ofKind("forbidden");
export const invalid = ofKind("invalid");
export const notFound = ofKind("not_found");
export const paymentRequired = ofKind("payment_required");
export const rateLimited = ofKind("rate_limited");
export const requestTimeout = ofKind("request_timeout");
export const suspended = ofKind("suspended");
export const tooLarge = ofKind("too_large");
export const unauthenticated = ofKind("unauthenticated");
export const unavailable = ofKind("unavailable");
export const upstreamFailed = ofKind("upstream_failed");

/** `no_answer`: connected, but it does not reply. */
export type OutageReason = "unreachable" | "no_answer" | "disk_full" | "overloaded" | "read_only" | "failing";
const outages: Readonly<Record<OutageReason, string>> = {
  unreachable: "the database cannot be reached",
  no_answer: "the database does not respond",
  disk_full: "the database's disk is full",
  overloaded: "the database is out of connections, memory or time",
  read_only: "the database is read-only",
  failing: "the database reports an internal failure",
};

/** PostgreSQL cannot be used now. The outcome of the work is unknown. The operator's sentence is the cause. */
export class DatabaseUnavailable extends ServiceError<ErrorParams & { readonly reason: OutageReason }> {
  constructor(reason: OutageReason, cause?: unknown) {
    // A full disk does not end within seconds.
    const message =
      reason === "disk_full"
        ? "The records cannot be written: the database's disk is full. Try again later."
        : "The records cannot be read or written at the moment. Try again in a few seconds.";
    super("unavailable", "store_away", message, {
      cause: new Error(outages[reason], { cause }),
      retryAfterSeconds: 2,
      params: { reason },
    });
  }

  /** Converts any error of work that needs the database. */
  static from(error: unknown): DatabaseUnavailable {
    return error instanceof DatabaseUnavailable ? error : new DatabaseUnavailable("failing", error);
  }
}

/** A report whose statement exceeded the database's time limit. `doing` starts a sentence: `Summing these days`. */
export const reportTooLong = (doing: string, cause: unknown) =>
  new ServiceError(
    "invalid",
    "report_too_long",
    `${doing} takes longer than 5 seconds, the limit of one report. Ask for a shorter period, or try again later.`,
    { param: "from", in: "query", cause },
  );

/** The same report succeeds once the job `divide-usage` has divided the account's months. */
export const usageNotReady = () =>
  unavailable(
    "usage_not_ready",
    "The server was updated and is still summing your earlier usage by day. Try again in a minute, or ask for recent days.",
    { retryAfterSeconds: 60 },
  );
