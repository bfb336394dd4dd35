// Settings of the file store: a folder, or a bucket of an S3-compatible store.
import { dirname, join, resolve } from "node:path";

export interface BlobSettings {
  /** On this machine, or a network file system that all control planes mount at the same place. */
  readonly folder: string;
  /** Instead of the folder. */
  readonly s3:
    | {
        readonly bucket: string;
        readonly prefix: string;
        readonly region: string;
        readonly endpoint: string | undefined;
        readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
      }
    | undefined;
}

/** Calls `problem` for every invalid value. */
export function readBlobSettings(
  text: (key: string) => string | undefined,
  secretsDir: string,
  problem: (sentence: string) => void,
): BlobSettings {
  const folder = resolve(text("STOKER_FILES_DIR") ?? join(dirname(secretsDir), "files"));
  const bucket = text("STOKER_FILES_S3_BUCKET");
  if (bucket === undefined) return { folder, s3: undefined };
  const prefix = (text("STOKER_FILES_S3_PREFIX") ?? "").replace(/^\/+|\/+$/g, "");
  const endpoint = text("STOKER_FILES_S3_ENDPOINT");
  if (endpoint !== undefined && !/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ""))
    problem("STOKER_FILES_S3_ENDPOINT must be an origin such as https://s3.example.com.");
  const [accessKeyId, secretAccessKey] = [text("AWS_ACCESS_KEY_ID"), text("AWS_SECRET_ACCESS_KEY")];
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined))
    problem("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together: set both, or neither.");
  return {
    folder,
    s3: {
      bucket,
      prefix: prefix === "" ? "" : `${prefix}/`,
      region: text("STOKER_FILES_S3_REGION") ?? "us-east-1",
      endpoint,
      credentials: accessKeyId && secretAccessKey ? { accessKeyId, secretAccessKey } : undefined,
    },
  };
}
