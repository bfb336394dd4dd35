// A stand-in for an agent's data path: verifies tickets, answers as scripted, and logs what it was asked.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
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
  | { readonly kind: "whole"; readonly body?: string; readonly usage?: UsageFigures | null; readonly pieces?: number }
  /** Frames, [DONE] and a trailer. */
  | {
      readonly kind: "stream";
      readonly frames?: readonly string[];
      readonly usage?: UsageFigures | null;
      /** Wait before each frame until told. */
      readonly gate?: () => Promise<void>;
    }
  | { readonly kind: "refuse"; readonly refusal: Refusal; readonly status: number; readonly retryAfter?: number }
  | { readonly kind: "error"; readonly status: number; readonly body: string; readonly usage?: UsageFigures }
  /** The connection breaks after the request was read, after so many frames (0: before the headers). */
  | { readonly kind: "break"; readonly afterFrames: number; readonly partial?: string }
  | { readonly kind: "hang" };

export interface Asked {
  readonly path: string;
  readonly ticket: Ticket | TicketProblem;
  readonly headers: IncomingMessage["headers"];
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

export async function startFakeAgent(): Promise<FakeAgent> {
  const asked: Asked[] = [];
  let scripts: Script[] = [{ kind: "whole" }];

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of req) parts.push(part as Buffer);
    const ticket = verifyTicket(String(req.headers["x-stoker-ticket"]), [ticketKey], Date.now());
    const entry: Asked = {
      path: req.url ?? "",
      ticket,
      headers: req.headers,
      body: Buffer.concat(parts),
      abortedAtMs: undefined,
    };
    asked.push(entry);
    res.on("close", () => {
      if (!res.writableFinished) entry.abortedAtMs = performance.now();
    });
    const script = (scripts.length > 1 ? scripts.shift() : scripts[0]) as Script;
    await play(script, res);
  }

  const server = createServer((req, res) => void serve(req, res).catch(() => res.destroy()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    script: (...next) => {
      scripts = next;
    },
    cut: () => server.closeAllConnections(),
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, "close").catch(() => {});
    },
  };
}

async function play(script: Script, res: ServerResponse): Promise<void> {
  switch (script.kind) {
    case "whole": {
      const body = Buffer.from(script.body ?? wholeChat);
      const usage = script.usage === undefined ? figures : script.usage;
      res.writeHead(200, {
        "content-type": "application/json",
        "content-length": body.length,
        ...(usage ? { [usageHeader]: encodeUsage(usage) } : {}),
      });
      const step = Math.ceil(body.length / (script.pieces ?? 1));
      for (let at = 0; at < body.length; at += step) {
        res.write(body.subarray(at, at + step));
        if (script.pieces) await new Promise(setImmediate);
      }
      res.end();
      return;
    }
    case "stream": {
      res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", trailer: usageHeader });
      for (const text of script.frames ?? [frame("Hel"), frame("lo"), frame("!")]) {
        await script.gate?.();
        res.write(text);
      }
      const usage = script.usage === undefined ? figures : script.usage;
      if (usage) res.addTrailers({ [usageHeader]: encodeUsage(usage) });
      res.end("data: [DONE]\n\n");
      return;
    }
    case "refuse":
      res.writeHead(script.status, {
        "content-type": "application/json",
        [refusalHeader]: script.refusal,
        ...(script.retryAfter ? { "retry-after": String(script.retryAfter) } : {}),
      });
      res.end('{"error":{"message":"refused"}}');
      return;
    case "error":
      res.writeHead(script.status, {
        "content-type": "application/json",
        [usageHeader]: encodeUsage(
          script.usage ?? { ...figures, input: 0, cachedInput: 0, output: 0, endReason: "refused" },
        ),
      });
      res.end(script.body);
      return;
    case "break":
      if (script.afterFrames === 0) {
        res.destroy();
        return;
      }
      res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
      for (let i = 0; i < script.afterFrames; i++) res.write(frame(`t${i}`));
      if (script.partial) res.write(script.partial);
      // What was written leaves before the connection breaks.
      res.socket?.end();
      return;
    case "hang":
      return;
  }
}
