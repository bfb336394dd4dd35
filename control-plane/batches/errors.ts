import { ServiceError } from "../service-error.ts";

export class BatchNotFound extends ServiceError {
  readonly code = "batch_not_found";
  constructor() {
    super("There is no such batch in your account. `GET /v1/batches` lists yours.");
  }
}

export class BatchInputMissing extends ServiceError {
  readonly code = "input_file_not_found";
  constructor() {
    super(
      "There is no such file of purpose `batch` in your account, or it has expired. Upload it with `POST /v1/files`.",
      {
        param: "input_file_id",
      },
    );
  }
}

export class BatchEnded extends ServiceError {
  readonly code = "batch_ended";
  constructor(status: string) {
    super(`The batch is ${status}: there is nothing left to cancel.`);
  }
}

export class TooManyBatches extends ServiceError {
  readonly code = "too_many_batches";
  constructor(limit: number) {
    super(`Your account has ${limit} batches that have not ended, its limit. Wait until one ends, or cancel one.`, {
      retryAfterSeconds: 60,
    });
  }
}

/** A browser's session has no key that lines could be counted to. */
export class BatchNeedsKey extends ServiceError {
  readonly code = "api_key_required";
  constructor() {
    super("The lines of a batch are billed to an API key: create it with one.");
  }
}
