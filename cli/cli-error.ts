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

  constructor(message: string, code: ExitCode, options: { requestId?: string | undefined; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.name = "CliError";
    this.exitCode = code;
    this.requestId = options.requestId;
  }
}

export function exitCodeOfStatus(status: number): ExitCode {
  if (status === 401 || status === 403) return exitCode.notAuthenticated;
  if (status === 404 || status === 410) return exitCode.notFound;
  if (status === 402 || status === 429 || status === 423) return exitCode.outOfFunds;
  if (status === 502 || status === 503 || status === 504) return exitCode.unavailable;
  if (status === 422 || status === 400) return exitCode.wrongUsage;
  return exitCode.failed;
}
