/** Exit codes are part of the interface: scripts use them to distinguish failures. */
export const exitCode = {
  done: 0,
  failed: 1,
  wrongUsage: 2,
  notAuthenticated: 3,
  notFound: 4,
  outOfFunds: 5,
  timedOut: 6,
  unavailable: 7,
} as const;

export type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** Failure with a message for the user. */
export class CliError extends Error {
  readonly exitCode: ExitCode;
  readonly requestId: string | undefined;
  /** Error code of the API, otherwise the meaning of the exit code. */
  readonly code: string;
  /** HTTP status, if a server rejected the request. */
  readonly status: number | undefined;
  /** URL of the explanation of the error code. */
  readonly help: string | undefined;

  constructor(message: string, code: ExitCode, options: CliErrorOptions = {}) {
    super(message, { cause: options.cause });
    this.name = "CliError";
    this.exitCode = code;
    this.requestId = options.requestId;
    this.code = options.code ?? codes[code];
    this.status = options.status;
    this.help = options.help;
  }
}

interface CliErrorOptions {
  readonly requestId?: string | undefined;
  readonly code?: string | undefined;
  readonly status?: number;
  readonly help?: string | undefined;
  readonly cause?: unknown;
}

/** The form that scripts read with --json. */
export const errorRecord = ({ code, message, requestId, status, help }: CliError): object => ({
  error: { code, message, request_id: requestId ?? null, status: status ?? null, help: help ?? null },
});

const codes: Readonly<Record<ExitCode, string>> = {
  0: "done",
  1: "failed",
  2: "wrong_usage",
  3: "not_authenticated",
  4: "not_found",
  5: "out_of_funds",
  6: "timed_out",
  7: "unavailable",
};

export function exitCodeOfStatus(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCode.notAuthenticated;
  if (status === 404 || status === 410) return exitCode.notFound;
  if (status === 402 || status === 429 || status === 423) return exitCode.outOfFunds;
  if (status === 502 || status === 503 || status === 504) return exitCode.unavailable;
  if (status === 422 || status === 400) return exitCode.wrongUsage;
  return exitCode.failed;
}
