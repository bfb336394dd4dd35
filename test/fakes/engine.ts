// A stand-in for a model server: OpenAI-compatible HTTP with deterministic token counts and scripted behaviour.
//
//   const engine = await startFakeEngine({ tokens: 64, tokenMs: 5 });            // every request
//   const engine = await startFakeEngine({ script: (r) => r.id.startsWith("x") ? { breakAfter: 3 } : {} });
//   engine.origin, engine.maxRunning, engine.log, engine.behave({ status: 500 }), await engine.close()
//
// HTTP: POST /v1/completions and /v1/chat/completions (streamed or not), GET /health, /v1/models, /usage/{id},
// and for other processes POST /fault (a partial EngineBehaviour; `{}` calms it) and GET /requests (the log).
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { answerTo } from "./engine-answer.ts";
import { calm, type EngineBehaviour, type EngineLogEntry, type EngineRequest } from "./engine-behaviour.ts";

export interface FakeEngineOptions extends Partial<EngineBehaviour> {
  readonly port?: number;
  /** Names that /v1/models lists. */
  readonly models?: readonly string[];
  /** What this one request meets, over the engine's default. */
  readonly script?: (request: EngineRequest) => Partial<EngineBehaviour>;
  /** False: /health answers 503, as while a model loads. */
  readonly healthy?: boolean;
  /** Bearer token that every request must carry; others get 401. */
  readonly apiKey?: string;
  /** Keep no more log entries than this. */
  readonly logLimit?: number;
}

export interface FakeEngine {
  readonly origin: string;
  readonly port: number;
  /** Requests running now; the most that ever ran at once; the same for sequences (`n` each). */
  readonly running: number;
  readonly maxRunning: number;
  readonly maxSequences: number;
  /** Oldest first. */
  readonly log: readonly EngineLogEntry[];
  /** Changes the behaviour of requests that come from now on. */
  behave(change: Partial<EngineBehaviour>): void;
  setHealthy(healthy: boolean): void;
  /** `/health` tells of so many more that run: cut requests that are still stopping. */
  linger(requests: number): void;
  /** Destroys open sockets. */
  close(): Promise<void>;
}

const readBody = async (req: IncomingMessage) => {
  const parts: Buffer[] = [];
  for await (const part of req) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString() || "{}") as Record<string, unknown>;
};

const sendJson = (res: ServerResponse, status: number, value: unknown) => {
  const body = JSON.stringify(value);
  res.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
  res.end(body);
};

const pause = (ms: number, entry: EngineLogEntry) =>
  ms <= 0 || entry.end ? undefined : new Promise<void>((done) => setTimeout(done, ms));

export async function startFakeEngine(options: FakeEngineOptions = {}): Promise<FakeEngine> {
  const { port = 0, models = ["fake/model"], script, healthy = true, apiKey, logLimit = 20_000, ...given } = options;
  const initial: EngineBehaviour = { ...calm, ...given };
  let behaviour = initial;
  let isHealthy = healthy;
  let serial = 0;
  let running = 0;
  let lingering = 0;
  let sequences = 0;
  let maxRunning = 0;
  let maxSequences = 0;
  const log: EngineLogEntry[] = [];

  async function complete(req: IncomingMessage, res: ServerResponse, path: string): Promise<void> {
    const request = { path, id: String(req.headers["x-stoker-request-id"] ?? ""), body: await readBody(req) };
    const b = { ...behaviour, ...script?.(request) };
    const answer = answerTo(request, b, ++serial);
    const entry: EngineLogEntry = {
      id: request.id,
      path,
      traceparent: req.headers["traceparent"] as string | undefined,
      tracestate: req.headers["tracestate"] as string | undefined,
      startedAtMs: Date.now(),
      promptTokens: answer.promptTokens,
      sentTokens: 0,
    };
    log.push(entry);
    if (log.length > logLimit) log.shift();
    maxRunning = Math.max(maxRunning, ++running);
    sequences += answer.choices;
    maxSequences = Math.max(maxSequences, sequences);
    const end = (how: NonNullable<EngineLogEntry["end"]>) => {
      if (entry.end) return;
      entry.end = how;
      entry.endedAtMs = Date.now();
      running -= 1;
      sequences -= answer.choices;
    };
    res.on("close", () => end(res.writableFinished ? "done" : "aborted"));
    const hung = (at: number) => b.hangAfter === at;
    const broken = (at: number) => {
      if (b.breakAfter !== at) return false;
      end("broken");
      res.destroy();
      return true;
    };

    await pause(b.firstByteMs, entry);
    if (b.until) await Promise.race([b.until, once(res, "close")]);
    if (entry.end || hung(0) || broken(0)) return;
    if (b.status !== 200) {
      end("failed");
      const error = { message: b.message ?? `scripted failure ${b.status}`, type: "server_error", code: null };
      return sendJson(res, b.status, { error });
    }
    if (request.body["stream"] !== true) {
      await pause(b.tokenMs * answer.outputTokens, entry);
      if (entry.end || hung(1) || broken(1)) return;
      entry.sentTokens = answer.outputTokens;
      const body = answer.whole();
      end("done");
      res.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
      res.end(body);
      return;
    }
    res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
    let waiting = "";
    let held = 0;
    const flush = async () => {
      const full = !res.write(waiting);
      waiting = "";
      held = 0;
      if (full) await Promise.race([once(res, "drain"), once(res, "close")]).catch(() => {});
      // Every write leaves in a turn of its own, as an engine's do; a big framesPerWrite sends all at once.
      if (b.tokenMs === 0) await new Promise(setImmediate);
      else await pause(b.tokenMs, entry);
    };
    for (const frame of answer.frames()) {
      if (entry.end) return;
      waiting += frame.text;
      if (frame.content) entry.sentTokens += 1;
      if (++held >= b.framesPerWrite) await flush();
      if (frame.content && hung(entry.sentTokens)) return void (waiting && (await flush()));
      if (frame.content && b.breakAfter === entry.sentTokens) {
        if (waiting) res.write(waiting);
        // The bytes written so far leave first: a break loses what was not sent, not what was.
        return void res.socket?.end(() => broken(entry.sentTokens));
      }
    }
    end("done");
    res.end(waiting);
  }

  function route(req: IncomingMessage, res: ServerResponse): void | Promise<void> {
    const path = (req.url ?? "/").split("?")[0] as string;
    if (req.method === "POST" && path === "/fault")
      return readBody(req).then((change) => {
        behaviour = { ...initial, ...(change as Partial<EngineBehaviour>) };
        sendJson(res, 200, behaviour);
      });
    if (req.method === "POST" && path === "/tokenize")
      return behaviour.tokenizes === undefined
        ? sendJson(res, 404, { detail: "Not Found" })
        : sendJson(res, 200, { count: behaviour.tokenizes, max_model_len: 4096, tokens: [] });
    if (req.method === "POST") return complete(req, res, path);
    if (path === "/health") {
      const work = { num_running: running + lingering, num_waiting: 0 };
      return sendJson(res, isHealthy ? 200 : 503, { status: isHealthy ? "ok" : "loading", ...work });
    }
    if (path === "/metrics" && behaviour.metrics !== undefined)
      return void res.writeHead(200, { "content-type": "text/plain; version=0.0.4" }).end(behaviour.metrics);
    if (path === "/requests") return sendJson(res, 200, { running, maxRunning, maxSequences, log });
    if (path === "/v1/models")
      return sendJson(res, 200, { object: "list", data: models.map((id) => ({ id, object: "model" })) });
    const entry =
      path.startsWith("/usage/") && behaviour.usageEndpoint ? log.findLast((e) => e.id === path.slice(7)) : undefined;
    if (!entry) return sendJson(res, 404, { error: { message: "no such thing here", type: "not_found", code: 404 } });
    return sendJson(res, 200, {
      input_tokens: entry.promptTokens,
      cached_input_tokens: 0,
      output_tokens: entry.sentTokens,
      finished: entry.end !== undefined,
    });
  }

  const server = createServer((req, res) => {
    if (apiKey !== undefined && req.headers.authorization !== `Bearer ${apiKey}`) res.writeHead(401).end();
    else Promise.resolve(route(req, res)).catch(() => res.destroy());
  });
  server.keepAliveTimeout = 60_000;
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const bound = (server.address() as AddressInfo).port;

  return {
    origin: `http://127.0.0.1:${bound}`,
    port: bound,
    get running() {
      return running;
    },
    get maxRunning() {
      return maxRunning;
    },
    get maxSequences() {
      return maxSequences;
    },
    log,
    behave: (change) => {
      behaviour = { ...behaviour, ...change };
    },
    linger: (requests) => {
      lingering = requests;
    },
    setHealthy: (value) => {
      isHealthy = value;
    },
    close: async () => {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, "close");
    },
  };
}
