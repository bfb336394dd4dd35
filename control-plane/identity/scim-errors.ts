import { badRequest, conflict, notFound, unauthenticated } from "../service-error.ts";

/** `type`: as RFC 7644 names it; rendered as `scimType`. */
export const scimInvalid = (type: string, message: string) => badRequest("scim_invalid", message, { param: type });

export const scimConflict = (message: string) => conflict("scim_conflict", message, { param: "uniqueness" });

export const scimNotFound = (what: string) => notFound("scim_not_found", `${what} not found.`);

export const scimTokenInvalid = () =>
  unauthenticated(
    "scim_token_invalid",
    "Invalid or missing SCIM token. An operator creates one for the identity provider.",
  );
