// A real SMTP server on a port of its own, which keeps what it accepted and refuses as it is told.
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { SMTPServer } from "smtp-server";

export interface TestMailServer {
  readonly url: string;
  /** Whole messages, with headers. */
  readonly accepted: string[];
  /** Addresses that clients named. */
  readonly recipients: string[];
  /** Refuses recipients with this reply. */
  refuse: { readonly code: number; readonly message: string } | undefined;
  close(): Promise<void>;
}

/** `password`: clients must sign in as `stoker` with it. */
export async function startMailServer(password: string): Promise<TestMailServer> {
  const accepted: string[] = [];
  const recipients: string[] = [];
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS"],
    allowInsecureAuth: true,
    logger: false,
    onAuth: ({ username, password: given }, _session, done) =>
      username === "stoker" && given === password ? done(null, { user: username }) : done(new Error("wrong password")),
    onRcptTo({ address }, _session, done) {
      recipients.push(address);
      const { refuse } = found;
      done(refuse && Object.assign(new Error(refuse.message), { responseCode: refuse.code }));
    },
    onData(stream, _session, done) {
      text(stream).then((message) => {
        accepted.push(message);
        done();
      }, done);
    },
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const { port } = server.server.address() as AddressInfo;
  const found: TestMailServer = {
    url: `smtp://stoker:${encodeURIComponent(password)}@127.0.0.1:${port}`,
    accepted,
    recipients,
    refuse: undefined,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
  return found;
}
