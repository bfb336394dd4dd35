// A mail server that repeats what it was sent, or replies with bytes that no text holds.
import { createServer } from "node:net";
import { pino } from "pino";
import { expect, it, onTestFinished } from "vitest";
import { MailRefused } from "../../../control-plane/mail/mail-server.ts";
import { createSmtp } from "../../../control-plane/mail/smtp.ts";

const password = "s3cret pass/word";

/** Refuses each command except the greeting with `reply`. Returns its URL. */
async function startServer(reply: (command: string) => string): Promise<string> {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.write("220 mail ESMTP\r\n");
    socket.on("data", (bytes) => {
      const command = bytes.toString().trim();
      socket.write(command.startsWith("EHLO") ? "250-mail\r\n250 AUTH PLAIN LOGIN\r\n" : `${reply(command)}\r\n`);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;
  return `smtp://stoker:${encodeURIComponent(password)}@127.0.0.1:${port}`;
}

/** The error of a mail, and its log line. */
async function refusalBy(reply: (command: string) => string) {
  const server = createSmtp({ url: await startServer(reply), from: "stoker@example.com" });
  const error = await server.send({ id: "mail_1", to: "ada@example.com", subject: "", text: "" }).catch((e) => e);
  expect(error).toBeInstanceOf(MailRefused);
  let line = "";
  pino({}, { write: (text: string) => (line += text) }).warn({ err: error }, "a mail was not accepted");
  return { message: (error as MailRefused).message, line };
}

it("does not reveal the password to logs and errors", async () => {
  const login = [`\0stoker\0${password}`, password].map((text) => Buffer.from(text).toString("base64"));
  const { message, line } = await refusalBy((command) => `535 refused: ${command} ${password} ${login[1]}`);
  expect(message).toContain("535 refused: AUTH PLAIN [secret]");
  for (const secret of [...login, password, encodeURIComponent(password)]) {
    expect(message).not.toContain(secret);
    expect(line).not.toContain(secret);
  }
});

it("does not fill the log", async () => {
  const { message, line } = await refusalBy(() => `535 ${"x".repeat(900_000)}`);
  expect(message).toHaveLength(500);
  expect(line.length).toBeLessThan(5_000);
});

it("has its reply stored without control characters, of which PostgreSQL refuses one", async () => {
  const { message } = await refusalBy(() => "535 no\0such\x1b[31muser");
  expect(message).toContain("no such [31muser");
});
