// Sends mails through the operator's mail server.
import { createTransport, type NodemailerError } from "nodemailer";
import { MailRefused, type MailServer, type SmtpSettings } from "./mail-server.ts";

const limitMs = 30_000;

export function createSmtp({ url, from }: SmtpSettings): MailServer {
  const transport = createTransport(url);
  const secrets = secretsOf(url);
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
        const isFinal = permanent === true && (code === "EENVELOPE" || code === "EMESSAGE");
        throw new MailRefused(
          secrets.reduce((text, secret) => text.replaceAll(secret, "[secret]"), message),
          isFinal,
        );
      }
    },
  };
}

/** Forms in which the password is configured and sent; a server may repeat the command that it refuses. */
function secretsOf(url: string): readonly string[] {
  const { username, password } = new URL(url);
  if (password === "") return [];
  const [user, plain] = [username, password].map(decoded);
  const sent = [`\0${user}\0${plain}`, `${plain}`].map((text) => Buffer.from(text).toString("base64"));
  return [...sent, `${plain}`, password];
}

/** As nodemailer decodes it. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
