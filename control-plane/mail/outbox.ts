// Mails are rows until the mail server accepted them. One that was sent just before a crash is sent again, with the same Message-ID.
import type { Logger } from "pino";
import { Counter, type Registry } from "prom-client";
import { linkPlaceholder, type MailLink } from "../new-mail.ts";
import { MailRefused, type MailServer } from "./mail-server.ts";
import type { ClaimedMail, MailStore } from "./store.ts";

const minuteMs = 60_000;
/** Before the second attempt, the third and so on; then the mail has failed. */
const retriesMs = [1, 5, 30, 120, 480].map((minutes) => minutes * minuteMs);
/** Connections to the mail server. */
const maxAtOnce = 4;
/** Other jobs wait for this one, and the mail server may be slow. */
const deliverForMs = 15_000;
/** Longer than an attempt may take. */
const lockMs = 2 * minuteMs;

export interface MadeLink {
  readonly url: string;
  /** Makes the link useless. */
  revoke(): Promise<void>;
}

export interface Outbox {
  /** Sends what is due, and begins no attempt after 15 s. Any number of control planes may call it at the same time. */
  deliver(signal: AbortSignal): Promise<void>;
}

export function createOutbox(deps: {
  readonly store: MailStore;
  readonly server: MailServer;
  /** Makes a link of a mail, which is valid from now on. Undefined: the server's public address is unknown. */
  readonly linkOf: ((link: MailLink, mail: Pick<ClaimedMail, "account" | "to">) => Promise<MadeLink>) | undefined;
  readonly log: Logger;
  readonly registry: Registry;
}): Outbox {
  const { store, server, log } = deps;
  const mails = new Counter({
    name: "stoker_mails_total",
    help: "Attempts to send a mail, by outcome",
    labelNames: ["outcome"],
    registers: [deps.registry],
  });
  async function send(mail: ClaimedMail): Promise<void> {
    if (mail.link === null) return server.send(mail);
    if (!deps.linkOf) throw new MailRefused("the public address of this server is unknown", true);
    const made = await deps.linkOf(mail.link, mail);
    try {
      await server.send({ ...mail, text: mail.text.replace(linkPlaceholder, () => made.url) });
    } catch (error) {
      // The server may repeat the mail in its reply, which is stored and logged.
      await made.revoke();
      throw error;
    }
  }

  async function attempt(mail: ClaimedMail): Promise<void> {
    try {
      await send(mail);
    } catch (error) {
      if (!(error instanceof MailRefused)) throw error;
      const retryMs = error.isFinal ? undefined : retriesMs[mail.attempts - 1];
      mails.inc({ outcome: retryMs === undefined ? "failed" : "retried" });
      log.warn({ err: error, mail: mail.id, willRetry: retryMs !== undefined }, "a mail was not accepted");
      return store.failed(mail.id, error.message, retryMs);
    }
    mails.inc({ outcome: "sent" });
    await store.sent(mail.id);
  }

  return {
    async deliver(signal) {
      const endMs = performance.now() + deliverForMs;
      while (!signal.aborted && performance.now() < endMs) {
        const claimed = await store.claim(maxAtOnce, lockMs);
        await Promise.all(claimed.map(attempt));
        if (claimed.length < maxAtOnce) return;
      }
    },
  };
}
