// A WebSocket client as a test drives it: received messages in order, the close, and the response to a refused upgrade.
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { type ClientOptions, WebSocket } from "ws";
import { apiKey } from "./ports.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects and fails where it is not there.
type Message = any;

export interface Closed {
  readonly code: number;
  readonly reason: string;
}

export class SocketClient {
  readonly ws: WebSocket;
  readonly messages: Message[] = [];
  readonly closed: Promise<Closed>;
  readonly #arrived: (() => void)[] = [];
  #isClosed = false;

  constructor(ws: WebSocket) {
    this.ws = ws;
    ws.on("message", (data) => {
      this.messages.push(JSON.parse(String(data)));
      this.#wake();
    });
    this.closed = new Promise((resolve) => {
      ws.once("close", (code, reason) => {
        this.#isClosed = true;
        this.#wake();
        resolve({ code, reason: String(reason) });
      });
    });
    ws.on("error", () => {});
  }

  send(message: object): void {
    this.ws.send(JSON.stringify(message));
  }

  get types(): string[] {
    return this.messages.map(({ type }) => type);
  }

  /** Returns the first message that matches, now or later. */
  async find(matches: (message: Message) => boolean): Promise<Message> {
    for (;;) {
      const found = this.messages.find(matches);
      if (found) return found;
      if (this.#isClosed) throw new Error(`closed before it was received; received ${JSON.stringify(this.messages)}`);
      await new Promise<void>((resolve) => this.#arrived.push(resolve));
    }
  }

  type(type: string): Promise<Message> {
    return this.find((message) => message.type === type);
  }

  #wake(): void {
    for (const arrived of this.#arrived.splice(0)) arrived();
  }
}

const withKey = { authorization: `Bearer ${apiKey}` };

/** Rejects when the upgrade is refused. Default headers: the test's key. */
export async function connect(
  url: string,
  { protocols = [], ...options }: ClientOptions & { readonly protocols?: string[] } = {},
): Promise<SocketClient> {
  const ws = new WebSocket(url.replace(/^http/, "ws"), protocols, { headers: withKey, ...options });
  const client = new SocketClient(ws);
  await once(ws, "open");
  return client;
}

/** Returns status and body of the response to an upgrade that must be refused. */
export async function refusedUpgrade(
  url: string,
  options: ClientOptions & { readonly protocols?: string[] } = {},
): Promise<{ readonly status: number; readonly body: Message; readonly headers: IncomingMessage["headers"] }> {
  const { protocols = [], ...rest } = options;
  const ws = new WebSocket(url.replace(/^http/, "ws"), protocols, { headers: withKey, ...rest });
  ws.on("error", () => {});
  const [, response] = (await Promise.race([
    once(ws, "unexpected-response"),
    once(ws, "open").then(() => Promise.reject(new Error("the upgrade was accepted"))),
  ])) as [unknown, IncomingMessage];
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  return {
    status: response.statusCode ?? 0,
    body: JSON.parse(Buffer.concat(parts).toString()),
    headers: response.headers,
  };
}
