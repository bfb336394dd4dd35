// Mails to accounts, where the operator set a mail server.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { randomId } from "../../proto/ids.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import { linkLifeMs } from "../accounts/account-mails.ts";
import { createTickets } from "../accounts/tickets.ts";
import type { AlertMail } from "../billing/limit-alerts.ts";
import { mailLinkPaths } from "../http/accounts/mail-pages.ts";
import type { SmtpSettings } from "../mail/mail-server.ts";
import { createOutbox } from "../mail/outbox.ts";
import { createChallengeStore } from "../store/accounts/sign-in-store.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createMailStore } from "../store/work/mail-store.ts";

/** Undefined: this installation sends no mails. */
export async function createMail(deps: {
  readonly db: OpenDatabase["db"];
  readonly smtp: SmtpSettings | undefined;
  readonly publicUrl: string | undefined;
  readonly pepper: Buffer;
  readonly log: Logger;
  readonly registry: Registry;
}) {
  const { smtp, publicUrl } = deps;
  if (smtp === undefined) return undefined;
  // Loads nodemailer, which most installations do not need.
  const { createSmtp } = await import("../mail/smtp.ts");
  const server = createSmtp(smtp);
  const makeId = () => `mail_${randomId(20)}`;
  const tickets = createTickets({
    store: createChallengeStore(deps.db),
    pepper: deps.pepper,
    unixMs: steadyTime.nowMs,
  });
  const alerts: AlertMail = {
    makeId,
    billingUrl: publicUrl && `${publicUrl}/console/billing?tab=alerts`,
  };
  const { deliver } = createOutbox({
    ...deps,
    store: createMailStore(deps.db),
    server,
    linkOf:
      publicUrl === undefined
        ? undefined
        : async (link, { account, to }) => {
            const { ticket } = await tickets.issue(link, { account, email: to }, linkLifeMs[link]);
            const url = `${publicUrl}${mailLinkPaths[link]}?ticket=${ticket}`;
            return { url, revoke: () => tickets.revoke(ticket) };
          },
  });
  return { server, alerts, deliver, accountMail: publicUrl === undefined ? undefined : { makeId, publicUrl } };
}
