// Reasons for which a backup or restore failed, for the owner of the data. The volume is unchanged in all cases.
import { isDiskFull } from "../../proto/disk-space.ts";

type BackupErrorCode =
  | "busy"
  | "volume_missing"
  | "backup_missing"
  | "backup_damaged"
  | "no_space"
  | "store_away"
  | "interrupted"
  | "failed";

export class BackupError extends Error {
  readonly code: BackupErrorCode;
  constructor(code: BackupErrorCode, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = "BackupError";
    this.code = code;
  }
}

/** Converts any error of a backup or restore. Paths and output of tools stay in the cause, which only the operator sees. */
export function asBackupError(error: unknown): BackupError {
  if (error instanceof BackupError) return error;
  if (isDiskFull(error))
    return new BackupError("no_space", "The host has no disk space left for it; nothing was changed.", {
      cause: error,
    });
  const text = "It failed on the host; nothing was changed. Try again, and contact your operator if it fails again.";
  return new BackupError("failed", text, { cause: error });
}
