import { ServiceError } from "../service-error.ts";

export class ContainerNotFound extends ServiceError {
  readonly code = "container_not_found";
  constructor() {
    super("There is no such container. `GET /v1/containers` shows yours.");
  }
}

export class ContainerNameTaken extends ServiceError {
  readonly code = "name_taken";
  constructor(name: string) {
    super(`A container named ${name} already exists in your account. Delete it or choose another name.`, {
      param: "name",
    });
  }
}

/** A field whose value cannot be served; the edge renders it as a validation answer for `param`. */
export class ContainerRefused extends ServiceError {
  readonly code = "invalid_container";
}

/** What the container is to do at its first start cannot be read, or nobody could log in. */
export class FirstStartRefused extends ServiceError {
  readonly code = "invalid_user_data";
  constructor(message: string) {
    super(message, { param: "cloud_init_user_data" });
  }
}

/** Its GPUs would go above the account's limit. */
export class ContainerLimitReached extends ServiceError {
  readonly code = "gpu_limit_reached";
  constructor(cause: Error) {
    super(cause.message, { cause, param: "gpu_config", retryAfterSeconds: 60 });
  }
}
