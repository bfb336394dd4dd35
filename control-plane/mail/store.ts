import type { AccountId } from "../../proto/ids.ts";

export interface Mail {
  /** Unique; part of the Message-ID, so that a mail program recognises a repeat. */
  readonly id: string;
  readonly to: string;
  readonly subject: string;
  /** Plain text. */
  readonly text: string;
}

export interface NewMail extends Omit<Mail, "to"> {
  readonly account: AccountId;
}

export interface ClaimedMail extends Mail {
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
