import { ServiceError } from "../service-error.ts";

export class FileNotFound extends ServiceError {
  readonly code = "file_not_found";
  constructor() {
    super("There is no such file in your account, or it has expired. `GET /v1/files` lists yours.");
  }
}

export class FileEmpty extends ServiceError {
  readonly code = "empty_file";
  constructor() {
    super("The file is empty. A batch reads one JSON object per line: write its requests there and upload it again.", {
      param: "file",
    });
  }
}

export class FileTooLarge extends ServiceError {
  readonly code = "file_too_large";
  constructor(limit: string) {
    super(`The file is larger than ${limit}, the limit of a file. Split it.`, { param: "file" });
  }
}

export class FileQuotaUsedUp extends ServiceError {
  readonly code = "file_quota_used_up";
  constructor(usedBytes: number, quotaBytes: number) {
    super(
      `With this file those of your account would be larger than ${gib(quotaBytes)}, its limit; ${gib(usedBytes)} are used. ` +
        "Delete files that you do not need any more.",
      { param: "file" },
    );
  }
}

/** Some batch still reads it. */
export class FileInUse extends ServiceError {
  readonly code = "file_in_use";
  constructor(batch: string) {
    super(`The batch ${batch} still reads this file. Cancel the batch first, or wait until it has ended.`);
  }
}

export class FileStoreAway extends ServiceError {
  readonly code = "file_store_away";
  constructor(cause: unknown) {
    super("The store of files cannot be reached at the moment. Try again in a few seconds.", {
      cause,
      retryAfterSeconds: 5,
    });
  }
}

/** A page that begins after a file or batch that is not there. */
export class UnknownCursor extends ServiceError {
  readonly code = "unknown_cursor";
  constructor() {
    super("`after` names nothing that is in this list. Leave it out to begin anew.", { param: "after" });
  }
}

const gib = (bytes: number) => `${Math.round((bytes / 1024 ** 3) * 100) / 100} GiB`;
