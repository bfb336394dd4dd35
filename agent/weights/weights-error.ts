// Reasons for which weights could not be fetched, for the owner of the deployment. They contain hosts but never URLs, which may
// carry signatures.

export const weightsErrorCodes = [
  "weights_invalid",
  "weights_not_found",
  "weights_unsupported",
  "hub_repo_not_found",
  "hub_gated_no_token",
  "hub_gated_no_access",
  "hub_revision_not_found",
  "hub_file_not_found",
  "hub_rate_limited",
  "hub_checksum_mismatch",
  "hub_disk_full",
  "hub_unreachable",
  "hub_failed",
  "source_refused",
  "source_denied",
  "source_not_found",
  "source_changed",
  "source_failed",
] as const;
export type WeightsErrorCode = (typeof weightsErrorCodes)[number];

/** `message` is for the customer and the operator; `retryable` false means that a retry cannot help. */
export class WeightsError extends Error {
  readonly code: WeightsErrorCode;
  readonly retryable: boolean;
  constructor(code: WeightsErrorCode, message: string, options: { retryable: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.name = "WeightsError";
    this.code = code;
    this.retryable = options.retryable;
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: "its name does not resolve",
  EAI_AGAIN: "the name server does not answer",
  ECONNREFUSED: "it refused the connection",
  ECONNRESET: "it cut the connection",
  EHOSTUNREACH: "there is no route to it",
  ENETUNREACH: "there is no network",
  ETIMEDOUT: "it did not answer in time",
  UND_ERR_CONNECT_TIMEOUT: "it did not answer in time",
  UND_ERR_HEADERS_TIMEOUT: "it accepted the request and sent no answer",
  UND_ERR_BODY_TIMEOUT: "it stopped sending",
  UND_ERR_SOCKET: "it cut the connection",
};
const untrusted = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/;

/** A host that could not be reached, or that closed the connection early. */
export function unreachableHost(host: string, setting: string, cause: unknown): WeightsError {
  const code = codeOf(cause);
  if (untrusted.test(code)) {
    const what = `${host} could not be reached: its certificate is not trusted by this machine (${code}).`;
    const todo = "If a proxy re-signs TLS here, give its CA file in NODE_EXTRA_CA_CERTS and start the agent again.";
    return new WeightsError("hub_unreachable", `${what} ${todo}`, { retryable: true, cause });
  }
  const why = reasons[code] ?? (code || "the connection failed");
  const todo = `check this machine's network and proxy settings, or set ${setting} to a mirror, and try again.`;
  return new WeightsError("hub_unreachable", `${host} could not be reached (${why}): ${todo}`, {
    retryable: true,
    cause,
  });
}

export function diskFull(folder: string, needBytes: number, freeBytes: number | undefined): WeightsError {
  const free = freeBytes === undefined ? "the disk is full" : `${megabytes(freeBytes)} are free`;
  const text = `The weights need ${megabytes(needBytes)} in ${folder} and ${free}: free some space, or point the agent's data folder at a larger disk, and deploy again.`;
  return new WeightsError("hub_disk_full", text, { retryable: false });
}

export function quotaFull(folder: string, needBytes: number, quotaBytes: number): WeightsError {
  const text = `The weights need ${megabytes(needBytes)} and the cache in ${folder} may take ${megabytes(quotaBytes)}, all of which is in use, pinned or too little: raise STOKER_MODELS_QUOTA_BYTES, unpin or delete what is not needed, and deploy again.`;
  return new WeightsError("hub_disk_full", text, { retryable: false });
}

/** Returns the system's or undici's error code, also of the first of several attempts (IPv4 and IPv6). */
export function codeOf(error: unknown): string {
  const { code, cause, errors } = error as { code?: unknown; cause?: unknown; errors?: unknown[] };
  if (typeof code === "string") return code;
  if (Array.isArray(errors) && errors.length > 0) return codeOf(errors[0]);
  return cause instanceof Error ? codeOf(cause) : "";
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6)} MB`;
}
