import { conflict, forbidden, invalid, notFound, unauthenticated, upstreamFailed } from "../service-error.ts";

export const providerNotFound = () =>
  notFound(
    "identity_provider_not_found",
    "Identity provider not found. `GET /v1/admin/identity-providers` lists those of this server.",
  );

export const providerConflict = (message: string) => conflict("identity_provider_conflict", message);

export const badProvider = (param: string, message: string) => invalid("bad_identity_provider", message, { param });

/** The provider cannot be reached, or its metadata or token response cannot be used. */
export const providerFailed = (name: string, cause: unknown) =>
  upstreamFailed(
    "identity_provider_failed",
    `The identity provider ${name} cannot be used at the moment. Try again; if it goes on, ask your operator.`,
    { cause },
  );

/** The reply of the provider does not belong to this sign-in, or is not signed by the provider. */
export const signInRefused = (name: string, cause?: unknown) =>
  unauthenticated(
    "provider_sign_in_refused",
    `The reply of the identity provider ${name} was not accepted. Start the sign-in again.`,
    { cause },
  );

/** The action needs a new sign-in at the provider, and the provider does not confirm one. */
export const signInNotFresh = (name: string) =>
  unauthenticated(
    "provider_sign_in_not_fresh",
    `${name} does not confirm that you have just signed in there (auth_time). Try again, or sign in with your password or passkey.`,
  );

export const emailUnverified = (name: string) =>
  forbidden(
    "identity_email_unverified",
    `${name} does not confirm your e-mail address. Verify it there, or ask the provider's administrator.`,
  );

export const domainNotListed = (name: string) =>
  forbidden(
    "identity_domain_not_listed",
    `Your e-mail address is not of a domain for which ${name} may sign people in. Ask the operator of this server.`,
  );

/** An account has the address, and the provider may not sign in to it by itself. */
export const linkRequired = (name: string) =>
  conflict(
    "identity_link_required",
    `An account with your e-mail address exists. Sign in to it as before and link ${name} under Security in the console.`,
  );

export const identityInactive = (name: string) =>
  forbidden("identity_inactive", `${name} has deactivated your access to this server. Ask its administrator.`);

export const identityTaken = () =>
  conflict("identity_taken", "This identity, or your account with this provider, is linked already.");

export const identityNotFound = () => notFound("identity_not_found", "Identity not found.");

export const identityManaged = () =>
  conflict("identity_managed", "The identity provider manages this account, so the two cannot be separated.");

/** `link`: starts the sign-in through the provider. The same whether or not an account has the address. */
export const ssoRequired = (name: string, link: string) =>
  forbidden("sso_required", `Addresses of this domain sign in through ${name}: ${link}`);

export const noPublicUrl = () =>
  conflict(
    "identity_provider_conflict",
    "Sign-in through identity providers needs the address of this server. Ask its operator to set STOKER_PUBLIC_URL.",
  );
