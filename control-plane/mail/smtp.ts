// Sends mails through the operator's mail server.
import { createTransport, type NodemailerError } from "nodemailer";
import { MailRefused, type MailServer, type SmtpSettings } from "./mail-server.ts";

const limitMs = 30_000;

export function createSmtp({ url, from }: SmtpSettings): MailServer {
  const transport = createTransport(url);
  const domain = /@([\w.-]+)>?\s*$/.exec(from)?.[1] ?? "stoker";
  return {
    async send({ id, to, subject, text }) {
      try {
        await transport.sendMail({
          from,
          // An object is one address, whatever characters it contains.
          to: { name: "", address: to },
          subject,
          text,
          messageId: `<${id}@${domain}>`,
          headers: { "Auto-Submitted": "auto-generated" },
          signal: AbortSignal.timeout(limitMs),
        });
      } catch (error) {
        const { message, code, permanent } = error as NodemailerError;
        // Final: refused for its recipient or content. Others concern the server or its credentials, which the operator may correct.
        throw new MailRefused(message, permanent === true && (code === "EENVELOPE" || code === "EMESSAGE"), error);
      }
    },
  };
}
