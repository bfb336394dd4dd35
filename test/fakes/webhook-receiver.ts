// A receiver of webhooks that keeps what came and answers as it is told.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";

export interface ReceivedCall {
  readonly id: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
  readonly atMs: number;
}

/** Undefined: 204. */
type Answer = (call: ReceivedCall, res: ServerResponse, count: number) => void;

export interface WebhookReceiver {
  /** `http://127.0.0.1:PORT` */
  readonly origin: string;
  readonly calls: readonly ReceivedCall[];
  /** `count`: of calls with this id so far, this one included. */
  answer(next: Answer | undefined): void;
  close(): Promise<void>;
}

export async function startWebhookReceiver(host = "127.0.0.1"): Promise<WebhookReceiver> {
  const calls: ReceivedCall[] = [];
  const counts = new Map<string, number>();
  let answer: Answer | undefined;

  async function take(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of req) parts.push(part as Buffer);
    const id = String(req.headers["webhook-id"]);
    const call = { id, path: req.url ?? "", headers: req.headers, body: Buffer.concat(parts), atMs: Date.now() };
    calls.push(call);
    const count = (counts.get(id) ?? 0) + 1;
    counts.set(id, count);
    if (answer) answer(call, res, count);
    else res.writeHead(204).end();
  }

  const server = createServer((req, res) => void take(req, res).catch(() => res.destroy()));
  server.listen(0, host);
  await once(server, "listening");
  return {
    origin: `http://${host}:${(server.address() as AddressInfo).port}`,
    calls,
    answer: (next) => {
      answer = next;
    },
    close: async () => {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, "close");
    },
  };
}

/** What a receiver learns of a call that it trusts: throws where the official library finds the signature wrong. */
export const verified = (secret: string, { headers, body }: ReceivedCall): unknown =>
  new Webhook(secret).verify(body, headers as Record<string, string>);
