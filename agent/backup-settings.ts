// Reads the location of backups from the agent's environment: a folder, or a bucket of an S3-compatible store.
import { join, resolve } from "node:path";
import { Secret } from "./secret.ts";

export type BackupSettings = ReturnType<typeof readBackupSettings>;

/** `problem` is called for every unusable value. */
export function readBackupSettings(
  text: (key: string) => string | undefined,
  dataDir: string,
  problem: (sentence: string) => void,
) {
  /** Folder on this host, or on a network file system that every host mounts at the same path. */
  const folder = resolve(text("STOKER_BACKUP_DIR") ?? join(dataDir, "backups"));
  const bucket = text("STOKER_BACKUP_S3_BUCKET");
  if (bucket === undefined) return { folder, s3: undefined };
  const prefix = (text("STOKER_BACKUP_S3_PREFIX") ?? "").replace(/^\/+|\/+$/g, "");
  const endpoint = text("STOKER_BACKUP_S3_ENDPOINT");
  if (endpoint !== undefined && !/^https?:$/.test(URL.parse(endpoint)?.protocol ?? ""))
    problem("STOKER_BACKUP_S3_ENDPOINT must be an origin such as https://s3.example.com");
  const [accessKeyId, secretAccessKey] = [text("AWS_ACCESS_KEY_ID"), text("AWS_SECRET_ACCESS_KEY")];
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined))
    problem("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together");
  return {
    folder,
    /** Used instead of the folder. */
    s3: {
      bucket,
      prefix: prefix === "" ? "" : `${prefix}/`,
      region: text("STOKER_BACKUP_S3_REGION") ?? "us-east-1",
      endpoint,
      credentials:
        accessKeyId && secretAccessKey ? { accessKeyId, secretAccessKey: new Secret(secretAccessKey) } : undefined,
    },
  };
}
