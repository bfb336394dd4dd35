import { badRequest, conflict, invalid, ServiceError, tooLarge, unavailable } from "../service-error.ts";

export class FileNotFound extends ServiceError {
  constructor() {
    super("not_found", "file_not_found", "File not found, or it has expired. `GET /v1/files` lists yours.");
  }
}

export const fileEmpty = () =>
  badRequest("empty_file", "The file is empty. Write one JSON object per line and upload it again.", { param: "file" });

export const fileTooLarge = (limit: string) =>
  tooLarge("file_too_large", `The file is larger than ${limit}, the limit of a file. Split it.`, { param: "file" });

export const fileQuotaUsedUp = (usedBytes: number, quotaBytes: number) =>
  tooLarge(
    "file_quota_used_up",
    `Your files can use at most ${gib(quotaBytes)} in total, and ${gib(usedBytes)} are used. ` +
      "Delete files that you no longer need.",
    { param: "file" },
  );

/** A batch still reads it. */
export const fileInUse = (batch: string) =>
  conflict(
    "file_in_use",
    `Batch ${batch} is still reading this file. Cancel the batch first, or wait until it has finished.`,
  );

export const fileStoreUnavailable = (cause: unknown) =>
  unavailable("file_store_away", "The file store is unavailable. Try again in a few seconds.", {
    cause,
    retryAfterSeconds: 5,
  });

/** The cursor names a file or batch that does not exist. */
export const unknownCursor = (param = "after") =>
  invalid("unknown_cursor", `\`${param}\` is not in this list. Omit it to start from the beginning.`, {
    param,
    in: "query",
  });

const gib = (bytes: number) => `${Math.round((bytes / 1024 ** 3) * 100) / 100} GiB`;
