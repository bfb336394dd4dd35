import { nano, toUsd } from "../../proto/money.ts";
import { suspendedSentence } from "../../proto/suspend-reason.ts";
import {
  badRequest,
  conflict,
  type ErrorFacts,
  invalid,
  notFound,
  paymentRequired,
  ServiceError,
  suspended,
  unavailable,
} from "../service-error.ts";

export class DeploymentNotFound extends ServiceError {
  constructor() {
    super("not_found", "deployment_not_found", "Deployment not found. `GET /deploy/list` lists yours.");
  }
}

export const externalKeyDiffers = (id: string) =>
  conflict(
    "external_key_differs",
    `This server is registered with another key. DELETE /deploy/${id}, then register it again.`,
    { param: "api_key" },
  );

export const deploymentNameTaken = (modelName: string) =>
  conflict(
    "name_taken",
    `A deployment named ${modelName} already exists in your account. Delete it or choose another name.`,
    { param: "model_name" },
  );

export const baseModelUnknown = (baseModel: string) =>
  notFound("model_not_found", `Base model ${baseModel} not found. \`GET /v1/models\` lists the available models.`, {
    param: "base_model",
  });

/** A hub repository or model version that does not exist, or that the token may not read. */
export const modelUnknown = (message: string, facts?: ErrorFacts) => notFound("model_not_found", message, facts);

/** `fields`: their names in the request. */
export const repositoryUnknown = (
  repo: string,
  revision: string,
  fields: { readonly repo: string; readonly revision: string },
) =>
  modelUnknown(
    `The hub has no repository ${repo} at revision ${revision}, or the token may not read it. Check ${fields.repo} and ${fields.revision}.`,
    { param: fields.repo },
  );

/** Usage of a deleted deployment is no longer reported. */
export const deploymentGone = () =>
  new ServiceError(
    "gone",
    "deployment_deleted",
    "The deployment was deleted. `GET /payment/usage` shows the cost of its requests.",
  );

/** A field with an unsupported value; the edge renders it as a validation error for `param`. */
export const deploymentRefused = (message: string, facts?: ErrorFacts) => invalid("invalid_deployment", message, facts);

/** The same for a field of an adapter request. */
export const adapterRefused = (field: string, why: string) =>
  invalid("invalid_adapter", `${field}: ${why}`, { param: field });

export class AdapterNotFound extends ServiceError {
  constructor(name: string) {
    super(
      "not_found",
      "adapter_not_found",
      `Adapter ${name.slice(0, 200)} not found. \`GET /v1/user/loras\` lists yours.`,
    );
  }
}

export const extraArgRefused = (message: string) => invalid("extra_arg_refused", message, { param: "extra_args" });

/** `needed`: nano-USD that the instances hold at start. */
export const noFunds = (needed = 0n) =>
  paymentRequired(
    "insufficient_quota",
    needed === 0n
      ? "You need positive balance to deploy a model. Add funds or ask your operator for credit."
      : `The first five minutes of its instances cost USD ${toUsd(nano(needed))}, which your funds do not cover. Add funds, ask your operator for credit, or deploy on fewer or cheaper GPUs.`,
  );

export const accountSuspended = (reason: string) =>
  suspended("account_suspended", `${suspendedSentence(reason)} New deployments are disabled until then.`);

/**
 * Refuses what costs money to a suspended account; reading, stopping and deleting stay possible. Throws accountSuspended.
 */
export function refuseSuspended({ suspendReason }: { readonly suspendReason: string | null }): void {
  if (suspendReason !== null) throw accountSuspended(suspendReason);
}

/** The account was deleted during the request. */
export const accountEnded = () => notFound("account_not_found", "The account of this key no longer exists.");

export const wrongDeploymentState = (message: string) => badRequest("wrong_state", message);

/** Concurrent changes, or the deployment is gone. */
export class DeploymentConflict extends ServiceError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super("conflict", "conflict", message, facts);
  }
}

export const hostNotFound = (host: string) =>
  notFound("host_not_found", `Host ${host} not found. \`GET /v1/admin/nodes\` lists the hosts.`, { param: "host" });

export const logsUnavailable = (message: string, facts?: ErrorFacts) => unavailable("logs_unavailable", message, facts);
