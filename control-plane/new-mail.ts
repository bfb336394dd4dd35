// Mails to accounts, as features queue them.
import type { AccountId } from "../proto/ids.ts";

/** Act that a link in a mail proves the recipient's address for. */
export type MailLink = "verify_email" | "reset_password" | "join_organization";

/** Where a mail's text names its link. */
export const linkPlaceholder = "{link}";

export interface NewAccountMail {
  /** Unique; part of the Message-ID, so that a mail program recognises a repeat. */
  readonly id: string;
  readonly subject: string;
  /** Plain text. */
  readonly text: string;
  /** The text contains the placeholder of this link, which is made when the mail is sent: the database never contains it. */
  readonly link?: MailLink;
  /** Tells the owner of a change to how the account is protected: other mails do not use up its limit. */
  readonly isNotice?: boolean;
}

export interface NewMail extends NewAccountMail {
  readonly account: AccountId;
}
