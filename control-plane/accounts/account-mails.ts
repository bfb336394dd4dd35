// Mails that prove an address or replace a password by a link, and notices to the owner of an account.
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import type { Actor } from "../act.ts";
import { linkPlaceholder, type MailLink, type NewAccountMail } from "../new-mail.ts";
import { accountGone, emailAlreadyVerified, noMailLinks } from "./errors.ts";
import { signInExpired } from "./factor-errors.ts";
import type { GuessLimits } from "./guess-limits.ts";
import type { Passwords } from "./password.ts";
import { checkNewPassword } from "./password-rule.ts";
import type { AccountMailStore, ProfileStore, SessionStore } from "./store.ts";
import type { Tickets } from "./tickets.ts";

const hourMs = 3_600_000;
/** Validity of links, from the moment the mail is sent. */
export const linkLifeMs: Readonly<Record<MailLink, number>> = { verify_email: 72 * hourMs, reset_password: hourMs };

export interface AccountMailSettings {
  readonly makeId: () => string;
  /** Public address of this installation. */
  readonly publicUrl: string;
}

export interface AccountMailDeps {
  readonly store: AccountMailStore & Pick<SessionStore, "credentials" | "nameOf"> & Pick<ProfileStore, "profile">;
  readonly tickets: Tickets;
  readonly limits: Pick<GuessLimits, "address" | "mailbox">;
  readonly passwords: Passwords;
  /** Undefined: this installation sends no mails, or does not know its own public address. */
  readonly mail: AccountMailSettings | undefined;
  readonly unixMs: () => number;
  readonly log: Logger;
}

export function createAccountMails(deps: AccountMailDeps) {
  const { store, tickets, limits, passwords, mail, unixMs } = deps;
  const links = (): AccountMailSettings => {
    if (mail === undefined) throw noMailLinks();
    return mail;
  };

  return {
    canSend: mail !== undefined,

    /** Mails a link that verifies the account's address. Throws noMailLinks, emailAlreadyVerified, TooManyAttempts, accountGone. */
    async requestVerification(account: AccountId): Promise<void> {
      const owner = await store.profile(account);
      if (!owner) throw accountGone();
      const settings = links();
      if (owner.emailVerified) throw emailAlreadyVerified();
      await limits.mailbox(owner.email.toLowerCase());
      await store.queue(account, verificationMail(settings));
    },

    /** The same for an account that was just created or changed, where the lack of a mail must not fail the act. */
    async offerVerification(account: AccountId): Promise<void> {
      if (mail === undefined) return;
      try {
        await this.requestVerification(account);
      } catch (error) {
        deps.log.warn({ err: error, account }, "no mail to verify an address was queued");
      }
    },

    /** Throws signInExpired for a link that was used, has expired, or was mailed to an earlier address of the account. */
    async verify(ticket: string, ip: string): Promise<void> {
      await limits.address(ip);
      const { lookup } = await tickets.find(ticket, ["verify_email"]);
      if (!(await store.verifyEmail(lookup, ip, unixMs()))) throw signInExpired();
    },

    /**
     * Mails a link that sets a new password, if an account has this address. The caller does not learn whether one has: looking it
     * up and queueing the mail happen after this returns. Throws noMailLinks, TooManyAttempts.
     */
    async requestReset(email: string, ip: string): Promise<void> {
      const settings = links();
      await limits.address(ip);
      await limits.mailbox(email.toLowerCase());
      const queue = async () => {
        const found = await store.credentials(email);
        if (found) await store.queue(found.account, resetMail(settings));
      };
      queue().catch((err) => deps.log.warn({ err }, "no mail for a new password was queued"));
    },

    /**
     * Sets the password by a link, ends the account's sessions and verifies its address. A second factor is still required at
     * the next sign-in. Throws weakPassword, after which the link can be used again, signInExpired, TooManyAttempts, signInBusy.
     */
    async reset(ticket: string, password: string, ip: string): Promise<void> {
      await limits.address(ip);
      const { lookup, account } = await tickets.find(ticket, ["reset_password"]);
      const owner = account === null ? undefined : await store.nameOf(account);
      if (!owner) throw signInExpired();
      await checkNewPassword(password, [owner.email, owner.displayName]);
      const hash = await passwords.hash(password);
      const notice = mail && passwordNotice(mail, ip);
      if (!(await store.resetPassword(lookup, { ip, hash, notice }, unixMs()))) throw signInExpired();
    },

    /** Notice that another password was set; undefined where no mail can be sent. */
    passwordNotice: ({ ip }: Actor): NewAccountMail | undefined => mail && passwordNotice(mail, ip),

    /** Notice to the address that an account had before. */
    addressNotice: ({ ip }: Actor): NewAccountMail | undefined => mail && addressNotice(mail, ip),
  };
}

export type AccountMails = ReturnType<typeof createAccountMails>;

// Strangers may cause these mails: they contain nothing that the sender of a request chose.

const hoursOf = (link: MailLink) => `${linkLifeMs[link] / hourMs} ${linkLifeMs[link] === hourMs ? "hour" : "hours"}`;

const verificationMail = ({ makeId, publicUrl }: AccountMailSettings): NewAccountMail => ({
  id: makeId(),
  link: "verify_email",
  subject: "Confirm your e-mail address",
  text: [
    `This address was given for an account at ${publicUrl}. Confirm that it is yours:`,
    linkPlaceholder,
    `The link is valid for ${hoursOf("verify_email")}. If the account is not yours, ignore this mail.`,
  ].join("\n\n"),
});

const resetMail = ({ makeId, publicUrl }: AccountMailSettings): NewAccountMail => ({
  id: makeId(),
  link: "reset_password",
  subject: "Set a new password",
  text: [
    `Somebody asked for a new password of your account at ${publicUrl}. Set it here:`,
    linkPlaceholder,
    `The link is valid for ${hoursOf("reset_password")} and can be used once. If you did not ask for it, ignore this mail: your password has not changed.`,
  ].join("\n\n"),
});

const passwordNotice = ({ makeId, publicUrl }: AccountMailSettings, ip: string): NewAccountMail => ({
  id: makeId(),
  subject: "Your password was changed",
  text: [
    `The password of your account at ${publicUrl} was changed from the address ${ip}. All other sessions have ended; API keys are still valid.`,
    `If it was not you, set a new password at ${publicUrl}/login/forgot and revoke your API keys.`,
  ].join("\n\n"),
});

const addressNotice = ({ makeId, publicUrl }: AccountMailSettings, ip: string): NewAccountMail => ({
  id: makeId(),
  subject: "Your e-mail address was changed",
  text: [
    `Your account at ${publicUrl} has another e-mail address now, and sends no more mails to this one. The change came from the address ${ip}.`,
    "If it was not you, tell the operator of this installation: the new address can set a new password.",
  ].join("\n\n"),
});
