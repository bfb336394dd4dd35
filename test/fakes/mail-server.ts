// A real SMTP server on a port of its own, which keeps what it accepted and refuses as it is told.
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { SMTPServer } from "smtp-server";

interface Refusal {
  readonly code: number;
  readonly message: string;
}

const errorOf = ({ code, message }: Refusal) => Object.assign(new Error(message), { responseCode: code });

export interface TestMailServer {
  readonly url: string;
  /** Whole messages, with headers. */
  readonly accepted: string[];
  /** Addresses that clients named. */
  readonly recipients: string[];
  /** Refuses recipients with this reply. */
  refuse: Refusal | undefined;
  /** Refuses messages with this reply. */
  refuseData: ((message: string) => Refusal) | undefined;
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
      done(found.refuse && errorOf(found.refuse));
    },
    onData(stream, _session, done) {
      text(stream).then((message) => {
        const refusal = found.refuseData?.(message.replaceAll(/\s+/g, " ").slice(-400));
        if (refusal) return done(errorOf(refusal));
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
    refuseData: undefined,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
  return found;
}
