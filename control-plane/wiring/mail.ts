// Mails to accounts, where the operator set a mail server.
import type { Logger } from "pino";
import type { Registry } from "prom-client";
import { randomId } from "../../proto/ids.ts";
import type { AlertMail } from "../billing/limit-alerts.ts";
import type { SmtpSettings } from "../mail/mail-server.ts";
import { createOutbox } from "../mail/outbox.ts";
import type { OpenDatabase } from "../store/core/database.ts";
import { createMailStore } from "../store/work/mail-store.ts";

/** Undefined: this installation sends no mails. */
export async function createMail(deps: {
  readonly db: OpenDatabase["db"];
  readonly smtp: SmtpSettings | undefined;
  readonly publicUrl: string | undefined;
  readonly log: Logger;
  readonly registry: Registry;
}) {
  const { smtp, publicUrl } = deps;
  if (smtp === undefined) return undefined;
  // Loads nodemailer, which most installations do not need.
  const { createSmtp } = await import("../mail/smtp.ts");
  const server = createSmtp(smtp);
  const alerts: AlertMail = {
    makeId: () => `mail_${randomId(20)}`,
    billingUrl: publicUrl && `${publicUrl}/console/billing?tab=alerts`,
  };
  const { deliver } = createOutbox({ ...deps, store: createMailStore(deps.db), server });
  return { server, alerts, deliver };
}
