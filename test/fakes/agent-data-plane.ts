// A stand-in for an agent's data path: verifies tickets, answers as scripted, and logs what it was asked.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import type { Answer } from "../../agent/ingress/answer.ts";
import { HttpAnswer } from "../../agent/ingress/http-answer.ts";
import { defaultLimits } from "../../agent/ingress/limits.ts";
import type { Plane } from "../../agent/ingress/plane.ts";
import { acceptShared, type SharedServer } from "../../agent/ingress/shared-connection.ts";
import { sharedPath, sharedProtocol } from "../../proto/frames.ts";
import { type Ticket, type TicketProblem, verifyTicket } from "../../proto/ticket.ts";
import { encodeUsage, type Refusal, refusalHeader, type UsageFigures, usageHeader } from "../../proto/usage.ts";
import { ticketKey } from "./ports.ts";

export const figures: UsageFigures = {
  input: 6,
  cachedInput: 2,
  output: 3,
  reasoning: 0,
  source: "engine",
  endReason: "stop",
};

export type Script =
  /** A whole answer; `usage: null` sends no figures. */
  | { readonly kind: "whole"; readonly body?: string; readonly usage?: UsageFigures | null }
  /** Frames, [DONE] and a trailer. */
  | {
      readonly kind: "stream";
      readonly frames?: readonly string[];
      readonly usage?: UsageFigures | null;
      /** Wait before each frame until told. */
      readonly gate?: () => Promise<void>;
    }
  | { readonly kind: "refuse"; readonly refusal: Refusal; readonly status: number; readonly retryAfter?: number }
  /** `usage: null` sends no figures. */
  | { readonly kind: "error"; readonly status: number; readonly body: string; readonly usage?: UsageFigures | null }
  /** The connection breaks after the request was read, after so many frames (0: before the headers). */
  | { readonly kind: "break"; readonly afterFrames: number; readonly partial?: string }
  | { readonly kind: "hang" };

export interface Asked {
  readonly path: string;
  readonly ticket: Ticket | TicketProblem;
  /** The signed ticket as it came. */
  readonly header: string;
  readonly body: Buffer;
  /** Monotonic ms when the gateway cut it; undefined while it did not. */
  abortedAtMs: number | undefined;
}

export interface FakeAgent {
  readonly origin: string;
  readonly asked: Asked[];
  /** What the next requests meet, in order; the last one stays. */
  script(...next: Script[]): void;
  /** Breaks every open connection. */
  cut(): void;
  close(): Promise<void>;
}

export const frame = (text: string) =>
  `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"org/model","choices":[{"index":0,"delta":{"content":${JSON.stringify(text)}},"finish_reason":null}]}\n\n`;
export const wholeChat = JSON.stringify({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1,
  model: "org/model",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello!" }, finish_reason: "stop", logprobs: null }],
  usage: { prompt_tokens: 6, completion_tokens: 3, total_tokens: 9, estimated_cost: 0.00000022 },
});

/** Lets `free` frames pass at once; the others wait for `release`. `passed` counts those that came to it. */
export function gateAfter(free: number) {
  const opened = Promise.withResolvers<void>();
  let count = 0;
  return {
    gate: () => (++count <= free ? Promise.resolve() : opened.promise),
    release: () => opened.resolve(),
    passed: () => count,
  };
}

/** `shared`: it also takes requests over one connection, as agents do; otherwise it is one of an older version. */
export async function startFakeAgent({ shared = true }: { readonly shared?: boolean } = {}): Promise<FakeAgent> {
  const asked: Asked[] = [];
  let scripts: Script[] = [{ kind: "whole" }];
  const connections = new Set<SharedServer>();

  function serve(path: string, ticket: string, body: Buffer, answer: Answer): void {
    const entry: Asked = {
      path,
      ticket: verifyTicket(ticket, [ticketKey], Date.now()),
      header: ticket,
      body,
      abortedAtMs: undefined,
    };
    asked.push(entry);
    let isPlayed = false;
    answer.onClose(() => {
      if (!isPlayed) entry.abortedAtMs = performance.now();
    });
    const script = (scripts.length > 1 ? scripts.shift() : scripts[0]) as Script;
    void play(script, answer, () => {
      isPlayed = true;
    });
  }

  async function serveAlone(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of req) parts.push(part as Buffer);
    const answer = new HttpAnswer(res);
    if (req.url === sharedPath) answer.whole(404, [], Buffer.alloc(0));
    else serve(req.url ?? "", String(req.headers["x-stoker-ticket"]), Buffer.concat(parts), answer);
  }

  const server = createServer((req, res) => void serveAlone(req, res).catch(() => res.destroy()));
  if (shared) {
    const plane = { limits: defaultLimits, heldBodyBytes: 0, log: pino({ level: "silent" }) } as unknown as Plane;
    server.on("upgrade", (_req, socket, first) => {
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ${sharedProtocol}\r\n\r\n`);
      const connection = acceptShared(
        socket,
        first,
        plane,
        ({ path, ticket, answer, readBody }) => readBody((body) => serve(path, ticket, body as Buffer, answer)),
        () => connections.delete(connection),
      );
      connections.add(connection);
    });
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cutAll = () => {
    server.closeAllConnections();
    for (const connection of connections) connection.cut();
  };
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    script: (...next) => {
      scripts = next;
    },
    cut: cutAll,
    async close() {
      const closed = once(server, "close").catch(() => {});
      server.close();
      cutAll();
      await closed;
    },
  };
}

/** `done`: nothing more is to come of it; a close from here on is its own end. */
async function play(script: Script, answer: Answer, done: () => void): Promise<void> {
  const write = (text: string) => answer.write([Buffer.from(text)], () => {});
  switch (script.kind) {
    case "whole": {
      done();
      const usage = script.usage === undefined ? figures : script.usage;
      const headers = ["content-type", "application/json", ...(usage ? [usageHeader, encodeUsage(usage)] : [])];
      answer.whole(200, headers, Buffer.from(script.body ?? wholeChat));
      return;
    }
    case "stream": {
      for (const text of script.frames ?? [frame("Hel"), frame("lo"), frame("!")]) {
        await script.gate?.();
        write(text);
      }
      done();
      const usage = script.usage === undefined ? figures : script.usage;
      answer.end(Buffer.from("data: [DONE]\n\n"), usage ? encodeUsage(usage) : undefined);
      return;
    }
    case "refuse":
      done();
      answer.whole(
        script.status,
        [
          ...["content-type", "application/json", refusalHeader, script.refusal],
          ...(script.retryAfter ? ["retry-after", String(script.retryAfter)] : []),
        ],
        Buffer.from('{"error":{"message":"refused"}}'),
      );
      return;
    case "error": {
      done();
      const nothing = { ...figures, input: 0, cachedInput: 0, output: 0, endReason: "refused" } as const;
      const usage = script.usage === null ? [] : [usageHeader, encodeUsage(script.usage ?? nothing)];
      answer.whole(script.status, ["content-type", "application/json", ...usage], Buffer.from(script.body));
      return;
    }
    case "break":
      done();
      for (let i = 0; i < script.afterFrames; i++) write(frame(`t${i}`));
      if (script.partial) write(script.partial);
      // What was written leaves before the answer breaks.
      setImmediate(() => answer.cut());
      return;
    case "hang":
      return;
  }
}
