// What is queued to be mailed to an account.
import type { AccountId } from "../proto/ids.ts";

/** Act that a link in a mail proves the recipient's address for. */
export type MailLink = "verify_email" | "reset_password";

/** Where a mail's text names its link. */
export const linkPlaceholder = "{link}";

/** Of an account that is named beside it. */
export interface NewAccountMail {
  /** Unique; part of the Message-ID, so that a mail program recognises a repeat. */
  readonly id: string;
  readonly subject: string;
  /** Plain text. */
  readonly text: string;
  /** The text contains the placeholder of this link, which is made when the mail is sent: the database never contains it. */
  readonly link?: MailLink;
}

export interface NewMail extends NewAccountMail {
  readonly account: AccountId;
}
