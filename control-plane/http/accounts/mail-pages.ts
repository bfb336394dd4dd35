// Pages of the links in mails: verify an address, ask for a new password, set it.
import { linkLifeText } from "../../accounts/account-mails.ts";
import type { MailLink } from "../../new-mail.ts";
import { hidden, html, page, passwordField, refused } from "./login-pages.ts";

/** Paths of links in mails. Opening one changes nothing, because mail scanners open links ahead of people; its button does. */
export const mailLinkPaths: Readonly<Record<MailLink, string>> = {
  verify_email: "/login/verify",
  reset_password: "/login/reset",
  join_organization: "/console/join",
};

export const forgotPath = "/login/forgot";

const cliAdvice = html`<p class="small">With an API key of the account, <strong>stoker auth link</strong> prints a link that
signs in, and <strong>stoker auth set-password</strong> sets a password.</p>`;

export const forgotPage = (canSend: boolean, refusal?: string): string =>
  page(
    "Set a new password",
    canSend
      ? html`${refused(refusal)}
<p>Stoker mails a link that sets a new password.</p>
<form method="post" action="${forgotPath}">
<label for="email">E-mail address of the account</label>
<input id="email" name="email" type="email" autocomplete="username" maxlength="320" required autofocus>
<button>Send the mail</button>
</form>
${cliAdvice}
<p class="small"><a href="/login">Back to sign-in</a></p>`
      : html`<p>This server sends no mails. Ask its operator for help.</p>
${cliAdvice}
<p class="small"><a href="/login">Back to sign-in</a></p>`,
  );

export const mailOnItsWayPage = (): string =>
  page(
    "Check your mailbox",
    html`<p>If an account has this address, you will receive a mail with a link, valid for ${linkLifeText("reset_password")}.</p>
<p class="small">No mail after some minutes? Check your spam folder and the spelling of the address.
<a href="${forgotPath}">Try again</a></p>`,
  );

export const resetPage = (ticket: string, refusal?: string): string =>
  page(
    "Set a new password",
    html`${refused(refusal)}
<p>All sessions of the account end. A second factor stays as it is.</p>
<form method="post" action="${mailLinkPaths.reset_password}">
${hidden("ticket", ticket)}
${passwordField}
<button>Set password</button>
</form>`,
  );

export const passwordSetPage = (): string =>
  page("The password is set", html`<p><a href="/console/sign-in">Sign in</a> with the new password.</p>`);

export const verifyPage = (ticket: string, refusal?: string): string =>
  page(
    "Confirm your e-mail address",
    html`${refused(refusal)}
<p>Confirm that you receive mails at this address.</p>
<form method="post" action="${mailLinkPaths.verify_email}">${hidden("ticket", ticket)}<button>Confirm</button></form>`,
  );

export const verifiedPage = (): string =>
  page("The address is confirmed", html`<p>Stoker sends its mails to it. <a href="/console">Open the console</a></p>`);

/** A link that was used, has expired, or belongs to an earlier address. */
export const brokenLinkPage = (refusal: string, again: string, what: string): string =>
  page("This link does not work", html`${refused(refusal)}<p><a href="${again}">${what}</a></p>`);
