// Settings of a bucket of an S3-compatible store, as the environment of a process names them.

export interface S3Settings {
  readonly bucket: string;
  /** Prefix of every key; empty or ending in a slash. */
  readonly prefix: string;
  readonly region: string;
  /** Origin of an S3-compatible store; undefined: Amazon's. */
  readonly endpoint: string | undefined;
  /** Undefined: the client's default lookup (profile, instance role). */
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
}

/**
 * Reads `<name>_BUCKET`, `_PREFIX`, `_REGION` and `_ENDPOINT`, and the keys of AWS. Calls `problem` for every invalid value, without a
 * full stop. Undefined: no bucket is named.
 */
export function readS3Settings(
  text: (key: string) => string | undefined,
  name: "STOKER_FILES_S3" | "STOKER_BACKUP_S3" | "STOKER_AUDIT_S3",
  problem: (sentence: string) => void,
): S3Settings | undefined {
  const bucket = text(`${name}_BUCKET`);
  if (bucket === undefined) return undefined;
  const prefix = (text(`${name}_PREFIX`) ?? "").replace(/^\/+|\/+$/g, "");
  const endpoint = text(`${name}_ENDPOINT`);
  if (endpoint !== undefined && !/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ""))
    problem(`${name}_ENDPOINT must be an origin such as https://s3.example.com`);
  const [accessKeyId, secretAccessKey] = [text("AWS_ACCESS_KEY_ID"), text("AWS_SECRET_ACCESS_KEY")];
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined))
    problem("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together: set both, or neither");
  return {
    bucket,
    prefix: prefix === "" ? "" : `${prefix}/`,
    region: text(`${name}_REGION`) ?? "us-east-1",
    endpoint,
    credentials: accessKeyId && secretAccessKey ? { accessKeyId, secretAccessKey } : undefined,
  };
}

/** Options of AWS's client for these settings. */
export const s3ClientOptions = ({ region, endpoint, credentials }: S3Settings) =>
  ({
    region,
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    ...(credentials === undefined ? {} : { credentials }),
    // Many compatible stores refuse the newer trailing checksums.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
  }) as const;

/** Returns true for an error of the store or of the connection to it, and false for an error of the body. */
export function isStoreError(error: unknown): boolean {
  const { $metadata, name, code } = error as { $metadata?: { httpStatusCode?: number }; name?: string; code?: string };
  const isConnection = /^(ECONN|ENOTFOUND|EAI_|ETIMEDOUT|EPIPE)/.test(code ?? "") || name === "TimeoutError";
  return Boolean($metadata?.httpStatusCode) || isConnection;
}
