// Pages of /login: plain HTML without scripts.

import { createHash } from "node:crypto";
import { codeOf } from "../../accounts/cli-login.ts";

// HTML templates that escape every value except other templates.
class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

type Printed = Html | string | undefined | false;

/** Undefined and false render as nothing, a list as its parts. */
export function html(parts: TemplateStringsArray, ...values: readonly (Printed | readonly Html[])[]): Html {
  return new Html(parts.map((part, i) => part + (i < values.length ? printed(values[i]) : "")).join(""));
}

function printed(value: Printed | readonly Html[]): string {
  if (value instanceof Html) return value.text;
  if (typeof value === "object") return value.map((one) => one.text).join("\n");
  return value ? value.replace(/[&<>"']/g, (letter) => entities[letter] as string) : "";
}

const style = `
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #8b949e; --act: #0b57d0; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --act: #79b8ff; --bad: #ffb4ab } }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper) }
main { max-width: 24rem; margin: 10vh auto 0; padding: 0 1rem }
h1 { font-size: 1.4rem }
label { display: block; margin: 1rem 0 .25rem }
input, select { box-sizing: border-box; width: 100%; padding: .6rem; font: inherit; color: inherit; background: transparent;
  border: 1px solid var(--line); border-radius: .4rem }
button { margin: 1.25rem .5rem 0 0; padding: .6rem 1.2rem; font: inherit; border: 1px solid var(--act); border-radius: .4rem;
  color: var(--paper); background: var(--act); cursor: pointer }
button.second { color: var(--act); background: transparent }
:focus-visible { outline: 3px solid var(--act); outline-offset: 2px }
form.beside { display: inline }
code { font-size: 1.2em; font-weight: 600; letter-spacing: .08em }
.refused { color: var(--bad); font-weight: 600 }
.small { font-size: .875rem }
`;

/** No scripts, no content of other origins, no frames; forms go only to this server. */
export const pagePolicy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'`,
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

export interface Visit {
  /** Login of a waiting command line. */
  readonly loginId: string | undefined;
  /** Page to open after the sign-in; default: /login. */
  readonly returnTo?: string | undefined;
  /** Error of the last step. */
  readonly refusal?: string | undefined;
  /** Address typed before. */
  readonly email?: string | undefined;
  /** Identity providers to choose from. */
  readonly providers?: readonly OfferedProvider[] | undefined;
}

export interface OfferedProvider {
  readonly name: string;
  /** Path that starts the sign-in. */
  readonly path: string;
}

/** Path of the sign-in page, with the login of a waiting command line. */
export const loginPath = (loginId: string | undefined): string =>
  loginId === undefined ? "/login" : `/login?cli=${loginId}`;

/** Opening it does not use the link, because browsers and mail scanners open links ahead of people; its button does. */
export const linkPath = (ticket: string): string => `/login/link?ticket=${ticket}`;

export const linkPage = (ticket: string): string =>
  page(
    "Sign in to Stoker",
    html`<p>This link signs this browser in once, without a password.</p>
<form method="post" action="/login/link">${hidden("ticket", ticket)}<button>Sign in</button></form>`,
  );

export const passwordField = html`<label for="password">Password (at least 12 characters)</label>
<input id="password" name="password" type="password" autocomplete="new-password" minlength="12" maxlength="1024" required autofocus>`;

export interface NewPasswordVisit {
  readonly email: string;
  readonly csrfToken: string;
  readonly refusal?: string | undefined;
}

/** Offered after a link signed in to an account without a password. */
export const newPasswordPage = ({ email, csrfToken, refusal }: NewPasswordVisit): string =>
  page(
    "Set a password",
    html`${refused(refusal)}
<p>You are signed in. Set a password to sign in as <strong>${email}</strong> later.</p>
<form method="post" action="/login/password">
${hidden("csrf", csrfToken)}<input type="hidden" name="email" autocomplete="username" value="${email}">
${passwordField}
<button>Set password</button>
</form>
<p class="small"><a href="/console">Continue without a password</a></p>`,
  );

export const signInPage = ({ loginId, refusal, email, providers = [] }: Visit): string =>
  page(
    "Sign in to Stoker",
    html`${loginId && html`<p>A command line is waiting for a key. Sign in to create it.</p>`}
${refused(refusal)}
<form method="post" action="/login">
${hidden("cli", loginId)}
<label for="email">E-mail address</label>
<input id="email" name="email" type="email" autocomplete="username" maxlength="320" required value="${email ?? ""}">
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" maxlength="1024" required>
<button>Sign in</button>
</form>
${providers.map(({ name, path }) => html`<p><a href="${path}">Sign in with ${name}</a></p>`)}
${passkeyLink(loginId)}
<p class="small"><a href="/login/forgot">No password, or forgotten?</a></p>`,
  );

export interface SecondFactorVisit extends Visit {
  readonly ticket: string;
  readonly methods: readonly string[];
}

export const secondFactorPage = ({ loginId, returnTo, refusal, ticket, methods }: SecondFactorVisit): string =>
  page(
    "Second factor",
    html`${refused(refusal)}
<form method="post" action="/login/second-factor">
${hidden("cli", loginId)}${hidden("return_to", returnTo)}${hidden("ticket", ticket)}
<label for="code">Code of your authenticator app, or a recovery code</label>
<input id="code" name="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false" maxlength="64" required autofocus>
<button>Continue</button>
</form>
${methods.includes("passkey") && passkeyLink(loginId)}
<p class="small"><a href="${loginPath(loginId)}">Start again</a></p>`,
  );

export const enrolPage = ({ loginId }: Visit): string =>
  page(
    "Set up a second factor",
    html`<p>This installation requires a second factor, and your account has none.</p>
<p><a href="/console/security${thenOf(loginId)}">Set one up in the console</a>${
      loginId && html`, then open this page again`
    }.</p>`,
  );

/** Passkeys require a script, which only the console has. */
const passkeyLink = (loginId: string | undefined) =>
  html`<p class="small"><a href="/console/sign-in${thenOf(loginId)}">Sign in with a passkey</a></p>`;

const thenOf = (loginId: string | undefined) => (loginId === undefined ? "" : `?cli=${loginId}`);

export interface SignedIn extends Visit {
  readonly displayName: string;
  /** Organisations whose key the command line may receive instead. */
  readonly organizations?: readonly { readonly uid: string; readonly name: string; readonly role: string }[];
  readonly csrfToken: string;
}

const accountField = (own: string, organizations: NonNullable<SignedIn["organizations"]>) =>
  organizations.length > 0 &&
  html`<label for="account">Account</label>
<select id="account" name="account"><option value="">${own}</option>
${organizations.map(({ uid, name, role }) => html`<option value="${uid}">${name} (${role})</option>`)}
</select>`;

export const confirmPage = ({ loginId = "", refusal, displayName, csrfToken, organizations = [] }: SignedIn): string =>
  page(
    "Give the command line a key?",
    html`${refused(refusal)}
<p>The terminal shows this code:</p>
<p><code>${codeOf(loginId)}</code></p>
<p>Continue only if you have just started <strong>stoker login</strong> yourself and the codes are the same: the terminal
receives an API key of ${organizations.length > 0 ? "the account that you choose" : html`<strong>${displayName}</strong>`} with all your permissions.</p>
<form class="beside" method="post" action="/login/confirm">
${hidden("cli", loginId)}${hidden("csrf", csrfToken)}${accountField(displayName, organizations)}<button>Give it a key</button>
</form>
<form class="beside" method="post" action="/login/sign-out">
${hidden("csrf", csrfToken)}<button class="second">No, sign out</button>
</form>`,
  );

export const confirmedPage = (): string =>
  page(
    "The command line has its key",
    html`<p>You can close this page. The key is listed with your other keys under a name that begins with cli, and ends with
<strong>stoker logout</strong>.</p>`,
  );

export const signedInPage = ({ refusal, displayName, csrfToken }: SignedIn): string =>
  page(
    `Signed in as ${displayName}`,
    html`${refused(refusal)}
<p>The <a href="/docs">reference of every endpoint</a> is on this server.</p>
<form method="post" action="/login/sign-out">${hidden("csrf", csrfToken)}<button>Sign out</button></form>`,
  );

export const refused = (refusal: string | undefined) => refusal && html`<p class="refused" role="alert">${refusal}</p>`;
export const hidden = (name: string, value: string | undefined) =>
  value !== undefined && html`<input type="hidden" name="${name}" value="${value}">`;

export function page(title: string, content: Html): string {
  // The style is not escaped, because the policy contains its hash.
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${html`${title}`.text}</title>
<style>${style}</style>
</head>
<body><main>
<h1>${html`${title}`.text}</h1>
${content.text}
</main></body>
</html>
`;
}
