import type { AccountId } from "../../proto/ids.ts";
import type { MailLink, NewAccountMail } from "../new-mail.ts";

export interface Mail extends Omit<NewAccountMail, "link" | "isNotice"> {
  readonly to: string;
}

export interface ClaimedMail extends Mail {
  readonly account: AccountId;
  readonly link: MailLink | null;
  /** Attempts, this one included. */
  readonly attempts: number;
}

export interface MailStore {
  /** Due mails, which no other control plane claims within `lockMs`. */
  claim(max: number, lockMs: number): Promise<readonly ClaimedMail[]>;
  sent(id: string): Promise<void>;
  /** `retryMs`: time until the next attempt; undefined: none follows. */
  failed(id: string, error: string, retryMs: number | undefined): Promise<void>;
}
