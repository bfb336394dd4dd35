// Mails that prove an address or replace a password by a link, and notices to the owner of an account.
import type { Logger } from "pino";
import type { AccountId } from "../../proto/ids.ts";
import type { Actor } from "../act.ts";
import { linkPlaceholder, type MailLink, type NewAccountMail } from "../new-mail.ts";
import type { EnforcedSso } from "./enforced-sso.ts";
import { accountGone, emailAlreadyVerified, mailLinkExpired, noMailLinks } from "./errors.ts";
import type { GuessLimits } from "./guess-limits.ts";
import { invitationLifeMs } from "./member-store.ts";
import type { Passwords } from "./password.ts";
import { checkNewPassword } from "./password-rule.ts";
import type { AccountMailStore, ProfileStore, SessionStore } from "./store.ts";
import type { Tickets } from "./tickets.ts";

const hourMs = 3_600_000;
/** Validity of links, from the moment the mail is sent. */
export const linkLifeMs: Readonly<Record<MailLink, number>> = {
  verify_email: 72 * hourMs,
  reset_password: hourMs,
  join_organization: invitationLifeMs,
};

/** The same in words. */
export const linkLifeText = (link: MailLink): string =>
  `${linkLifeMs[link] / hourMs} ${linkLifeMs[link] === hourMs ? "hour" : "hours"}`;

export interface AccountMailSettings {
  readonly makeId: () => string;
  /** Public address of this installation. */
  readonly publicUrl: string;
}

export interface AccountMailDeps {
  readonly store: AccountMailStore & Pick<SessionStore, "credentials" | "nameOf"> & Pick<ProfileStore, "profile">;
  readonly tickets: Tickets;
  readonly limits: Pick<GuessLimits, "address" | "reset" | "verification">;
  readonly passwords: Passwords;
  /** Undefined: this installation sends no mails, or does not know its own public address. */
  readonly mail: AccountMailSettings | undefined;
  readonly sso: EnforcedSso;
  readonly unixMs: () => number;
  readonly log: Logger;
}

export function createAccountMails(deps: AccountMailDeps) {
  const { store, tickets, limits, passwords, mail, unixMs } = deps;
  const queueing = new Set<Promise<unknown>>();
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
      await limits.verification(account);
      await store.queue(account, verificationMail(settings));
    },

    /** The same for an account that was just created or changed, where the lack of a mail must not fail the act. */
    async offerVerification(account: AccountId): Promise<void> {
      if (mail === undefined) return;
      try {
        await this.requestVerification(account);
      } catch (error) {
        deps.log.warn({ err: error, account }, "could not queue a mail to verify an address");
      }
    },

    /** Throws mailLinkExpired for a link that was used, has expired, or was mailed to an earlier address of the account. */
    async verify(ticket: string, ip: string): Promise<void> {
      await limits.address(ip);
      const found = await tickets.known(ticket, ["verify_email"]);
      if (!found || !(await store.verifyEmail(found.lookup, ip, unixMs()))) throw mailLinkExpired();
    },

    /**
     * Mails a link that sets a new password, if an account has this address. The caller does not learn whether one has: the mail is
     * queued after this returns. Throws noMailLinks, TooManyAttempts.
     */
    async requestReset(email: string, ip: string): Promise<void> {
      const settings = links();
      await limits.address(ip);
      await deps.sso.check(email);
      const { canonical, found } = await store.credentials(email);
      await limits.reset(canonical, ip);
      if (!found) return;
      const queued = store
        .queue(found.account, resetMail(settings))
        .catch((err) => deps.log.warn({ err }, "could not queue a mail for a new password"))
        .finally(() => queueing.delete(queued));
      queueing.add(queued);
    },

    /** Resolves when nothing is being queued. */
    async idle(): Promise<void> {
      await Promise.all(queueing);
    },

    /**
     * Sets the password by a link, ends the account's sessions and verifies its address. A second factor is still required at
     * the next sign-in. Throws weakPassword, after which the link can be used again, mailLinkExpired, TooManyAttempts, signInBusy.
     */
    async reset(ticket: string, password: string, ip: string): Promise<void> {
      await limits.address(ip);
      const found = await tickets.known(ticket, ["reset_password"]);
      const owner = found?.account ? await store.nameOf(found.account) : undefined;
      if (!found || !owner) throw mailLinkExpired();
      await deps.sso.check(owner.email);
      await checkNewPassword(password, [owner.email, owner.displayName]);
      const hash = await passwords.hash(password);
      const notice = mail && passwordNotice(mail, ip);
      if (!(await store.resetPassword(found.lookup, { ip, hash, notice }, unixMs()))) throw mailLinkExpired();
    },

    /** Notice that another password was set; undefined where no mail can be sent. */
    passwordNotice: ({ ip }: Actor): NewAccountMail | undefined => mail && passwordNotice(mail, ip),

    /** Notice to the address that an account had before. */
    addressNotice: ({ ip }: Actor): NewAccountMail | undefined => mail && addressNotice(mail, ip),
  };
}

export type AccountMails = ReturnType<typeof createAccountMails>;

// Strangers may cause these mails: they contain nothing that the sender of a request chose.

const verificationMail = ({ makeId, publicUrl }: AccountMailSettings): NewAccountMail => ({
  id: makeId(),
  link: "verify_email",
  subject: "Confirm your e-mail address",
  text: [
    `This address was given for an account at ${publicUrl}. Confirm that it is yours:`,
    linkPlaceholder,
    `The link is valid for ${linkLifeText("verify_email")}. If the account is not yours, ignore this mail.`,
  ].join("\n\n"),
});

const resetMail = ({ makeId, publicUrl }: AccountMailSettings): NewAccountMail => ({
  id: makeId(),
  link: "reset_password",
  subject: "Set a new password",
  text: [
    `A new password was requested for your account at ${publicUrl}. Set it here:`,
    linkPlaceholder,
    `The link is valid for ${linkLifeText("reset_password")} and can be used once. If you did not request it, ignore this mail: your password has not changed.`,
  ].join("\n\n"),
});

const passwordNotice = ({ makeId, publicUrl }: AccountMailSettings, ip: string): NewAccountMail => ({
  id: makeId(),
  isNotice: true,
  subject: "Your password was changed",
  text: [
    `The password of your account at ${publicUrl} was changed from the address ${ip}. All other sessions have ended; API keys are still valid.`,
    `If it was not you, set a new password at ${publicUrl}/login/forgot and revoke your API keys.`,
  ].join("\n\n"),
});

const addressNotice = ({ makeId, publicUrl }: AccountMailSettings, ip: string): NewAccountMail => ({
  id: makeId(),
  isNotice: true,
  subject: "Your e-mail address was changed",
  text: [
    `The e-mail address of your account at ${publicUrl} was changed from the address ${ip}. Mails go to the new one from now on.`,
    "If it was not you, contact the operator of this installation at once: a reader of the new mailbox can set a new password.",
  ].join("\n\n"),
});
