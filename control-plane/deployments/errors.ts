import { nano, toUsd } from "../../proto/money.ts";
import { suspendedSentence } from "../../proto/suspend-reason.ts";
import { ServiceError } from "../service-error.ts";

export class DeploymentNotFound extends ServiceError {
  readonly code = "deployment_not_found";
  constructor() {
    super("There is no such deployment. `GET /deploy/list` shows yours.");
  }
}

export class DeploymentNameTaken extends ServiceError {
  readonly code = "name_taken";
  constructor(modelName: string) {
    super(`A deployment named ${modelName} already exists in your account. Delete it or choose another name.`, {
      param: "model_name",
    });
  }
}

export class BaseModelUnknown extends ServiceError {
  readonly code = "model_not_found";
  constructor(baseModel: string) {
    super(`The base model ${baseModel} is unknown. \`GET /v1/models\` lists the models there are.`, {
      param: "base_model",
    });
  }
}

/** What it did is not told any more. */
export class DeploymentGone extends ServiceError {
  readonly code = "deployment_deleted";
  constructor() {
    super("The deployment was deleted. What its requests cost stands in `GET /payment/usage`.");
  }
}

/** A field whose value cannot be served; the edge renders it as a validation answer for `param`. */
export class DeploymentRefused extends ServiceError {
  readonly code = "invalid_deployment";
}

/** A field of a wish for an adapter that cannot be granted; the edge renders it as a validation answer for `param`. */
export class AdapterRefused extends ServiceError {
  readonly code = "invalid_adapter";
  constructor(field: string, why: string) {
    super(`${field}: ${why}`, { param: field });
  }
}

export class AdapterNotFound extends ServiceError {
  readonly code = "adapter_not_found";
  constructor(name: string) {
    super(`There is no adapter ${name.slice(0, 200)} in your account. \`GET /v1/user/loras\` lists yours.`);
  }
}

export class ExtraArgRefused extends ServiceError {
  readonly code = "extra_arg_refused";
  constructor(message: string) {
    super(message, { param: "extra_args" });
  }
}

export class NoFunds extends ServiceError {
  readonly code = "insufficient_quota";
  /** `needed`: nano-USD that the instances hold when they start. */
  constructor(needed = 0n) {
    super(
      needed === 0n
        ? "You need positive balance to deploy a model. Add funds or ask your operator for credit."
        : `The first five minutes of its instances cost USD ${toUsd(nano(needed))}, which your funds do not cover. Add funds, ask your operator for credit, or deploy on fewer or cheaper GPUs.`,
    );
  }
}

export class AccountSuspended extends ServiceError {
  readonly code = "account_suspended";
  constructor(reason: string) {
    super(`${suspendedSentence(reason)} Nothing can be deployed until then.`);
  }
}

/** The account was deleted while its request ran. */
export class AccountEnded extends ServiceError {
  readonly code = "account_not_found";
  constructor() {
    super("The account of this key no longer exists.");
  }
}

export class WrongDeploymentState extends ServiceError {
  readonly code = "wrong_state";
}

/** Two changes met, or the deployment is gone already. */
export class DeploymentConflict extends ServiceError {
  readonly code = "conflict";
}

export class HostNotFound extends ServiceError {
  readonly code = "host_not_found";
  constructor(host: string) {
    super(`There is no host ${host}. \`GET /v1/admin/nodes\` lists the hosts.`, { param: "host" });
  }
}

export class LogsUnavailable extends ServiceError {
  readonly code = "logs_unavailable";
}

export class DeploymentStoreAway extends ServiceError {
  readonly code = "store_away";
  constructor(cause: unknown) {
    super("The deployment records cannot be reached at the moment. Try again in a few seconds.", {
      cause,
      retryAfterSeconds: 2,
    });
  }
}
