import { badRequest, conflict, type ErrorFacts, invalid, notFound, rateLimited } from "../service-error.ts";

export const containerNotFound = () =>
  notFound("container_not_found", "Container not found. `GET /v1/containers` lists yours.");

export const containerNameTaken = (name: string) =>
  conflict(
    "name_taken",
    `A container named ${name} already exists in your account. Delete it or choose another name.`,
    { param: "name" },
  );

/** A field with an unsupported value; the edge renders it as a validation error for `param`. */
export const containerRefused = (message: string, facts?: ErrorFacts) => invalid("invalid_container", message, facts);

/** The first-start script is invalid, or the container would have no login. */
export const firstStartRefused = (message: string) =>
  badRequest("invalid_user_data", message, { param: "cloud_init_user_data" });

/** The container would exceed the account's GPU limit. */
export const containerLimitReached = (cause: Error) =>
  rateLimited("gpu_limit_reached", cause.message, { cause, param: "gpu_config", retryAfterSeconds: 60 });
