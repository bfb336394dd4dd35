import { notFound, rateLimited, requestTimeout } from "../service-error.ts";

export const cliLoginUsed = () =>
  notFound("login_used", "This login was already used or has expired. Run `stoker login` again.");

export const cliLoginTimedOut = () =>
  requestTimeout(
    "login_timed_out",
    "This login is not confirmed in a browser yet. Retry, or run `stoker login` again.",
  );

export const cliLoginBusy = () =>
  rateLimited("login_busy", "Too many pending logins. Try again in a few seconds.", {
    retryAfterSeconds: 5,
  });
