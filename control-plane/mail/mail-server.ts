import { conflict, upstreamFailed } from "../service-error.ts";
import type { Mail } from "./store.ts";

export interface SmtpSettings {
  /** `smtp://USER:PASSWORD@HOST:PORT` (STARTTLS where the server offers it) or `smtps://...`. */
  readonly url: string;
  /** `Name <address>` or an address. */
  readonly from: string;
}

export interface MailServer {
  /** Resolves when the server accepted it. Throws MailRefused within 30 s. */
  send(mail: Mail): Promise<void>;
}

/** The server's words, without control characters (PostgreSQL stores no NUL). `isFinal`: no other attempt can help. */
export class MailRefused extends Error {
  readonly isFinal: boolean;

  // Without a cause: its message is as long as the server's reply, and may repeat the password.
  constructor(message: string, isFinal: boolean) {
    super(message.replace(/\p{Cc}+/gu, " ").slice(0, 500));
    this.isFinal = isFinal;
  }
}

export const mailFailed = (error: MailRefused) =>
  upstreamFailed("mail_failed", `The mail server did not accept the mail: ${error.message}`, { cause: error });

export const noMailServer = () =>
  conflict("mail_disabled", "This installation sends no mails. Set STOKER_SMTP_URL and STOKER_MAIL_FROM first.");
