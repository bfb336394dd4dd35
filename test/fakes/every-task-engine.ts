// A stand-in for model servers of every task at once: each of OpenAI's paths, and the measuring of voices, answers with
// something of the right shape that says what it was asked. A chat that says "hold NAME" is answered once somebody asks for
// /release/NAME.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { answer, replyTo } from "./scripted-chat.ts";

export interface EveryTaskEngine {
  readonly origin: string;
  /** Voices and formats that were asked for, oldest first. */
  readonly voices: readonly unknown[];
  readonly formats: readonly unknown[];
  close(): Promise<void>;
}

export const measuredBlend = "af_heart:0.8,af_sky:0.2";

type Body = Readonly<Record<string, unknown>>;

export async function startEveryTaskEngine(models: readonly string[]): Promise<EveryTaskEngine> {
  const voices: unknown[] = [];
  const formats: unknown[] = [];
  const holds = new Map<string, PromiseWithResolvers<void>>();
  const holdOf = (name: string) => {
    const hold = holds.get(name) ?? Promise.withResolvers<void>();
    holds.set(name, hold);
    return hold;
  };

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of req) parts.push(part as Buffer);
    const bytes = Buffer.concat(parts);
    const json = (value: unknown) => send(res, "application/json", JSON.stringify(value));
    const isForm = req.headers["content-type"]?.startsWith("multipart/") ?? false;
    const body = isForm || bytes.length === 0 ? {} : (JSON.parse(bytes.toString()) as Body);
    switch (req.url) {
      case "/v1/models":
        return json({ object: "list", data: models.map((id) => ({ id, object: "model" })) });
      case "/v1/completions":
        return text(res, body, "text_completion");
      case "/v1/chat/completions":
        await heldBy(bytes);
        return text(res, body, "chat.completion");
      case "/tokenize":
        return json({ count: usageOf(4).prompt_tokens, max_model_len: 4096, tokens: [] });
      case "/v1/embeddings":
        return json(embeddings(body));
      case "/v1/rerank":
        return json(ranked(body));
      case "/v1/moderations": {
        const inputs = [body["input"]].flat();
        const result = { flagged: false, categories: { hate: false }, category_scores: { hate: 0.01 } };
        return json({ id: "modr-1", model: "moderation", results: inputs.map(() => result) });
      }
      case "/v1/score":
        return json(scored(body));
      case "/v1/audio/speech":
        voices.push(body["voice"]);
        formats.push(body["response_format"]);
        return send(res, "audio/wav", "RIFF said");
      case "/v1/audio/voices":
        return json({ kind: "blend", voice: measuredBlend, measured: { median_pitch_hz: 190 }, note: "A mixture" });
      case "/v1/audio/transcriptions":
      case "/v1/audio/translations":
        // More than a file can hold would be impossible usage.
        return json({
          text: "Hello World",
          usage: { type: "duration", seconds: bytes.includes("RIFF") ? 1 : 0.001 },
        });
      case "/v1/images/generations":
      case "/v1/images/edits":
      case "/v1/images/variations":
        return json({ created: 1, data: [{ b64_json: Buffer.from("a picture").toString("base64") }] });
      default:
        if (req.url?.startsWith("/release/")) holdOf(req.url.slice("/release/".length)).resolve();
        return json({});
    }
  }

  const heldBy = (bytes: Buffer) => {
    const [, name] = bytes.toString().match(/"hold (\w+)"/) ?? [];
    return name === undefined ? undefined : holdOf(name).promise;
  };

  const server = createServer((req, res) => void serve(req, res).catch(() => res.destroy()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    voices,
    formats,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function send(res: ServerResponse, contentType: string, body: string): void {
  res.writeHead(200, { "content-type": contentType, "content-length": Buffer.byteLength(body) });
  res.end(body);
}

/** Each word is a token, at least one. */
const wordsOf = (text: string): readonly string[] => text.match(/\s*\S+(?:\s+$)?/g) ?? [text];
const usageOf = (tokens: number) => ({ prompt_tokens: 7, completion_tokens: tokens, total_tokens: 7 + tokens });

/** Stop sequence of the request that is in the text. */
const stopIn = ({ stop }: Body, text: string): string | undefined =>
  Array.isArray(stop) ? stop.find((one: string) => text.includes(one)) : undefined;

function text(res: ServerResponse, body: Body, object: string): void {
  const head = { id: "cmpl-1", created: 1_786_000_000, model: body["model"] };
  const isChat = object === "chat.completion";
  const { text: full, calls = [] } = isChat ? replyTo(body) : { text: answer };
  const end = full === undefined ? undefined : stopIn(body, full);
  const said = isChat && end !== undefined ? full?.slice(0, full.indexOf(end)) : full;
  const { enable_thinking: thinks } = (body["chat_template_kwargs"] ?? {}) as Body;
  const words = said === undefined ? [] : wordsOf(said);
  const usage = usageOf(Math.max(1, words.length));
  const reason = calls.length > 0 ? "tool_calls" : "stop";
  const called = calls.map(({ name, arguments: given }, index) => ({
    index,
    // A session has several calls: their ids differ.
    id: `call_${randomUUID()}`,
    type: "function",
    function: { name, arguments: JSON.stringify(given) },
  }));
  if (body["stream"] !== true) {
    const content = said ?? null;
    const tool_calls = called.map(({ index: _, ...call }) => call);
    const message = {
      role: "assistant",
      content,
      ...(calls.length > 0 ? { tool_calls } : {}),
      ...(thinks === true ? { reasoning_content: "Let me see." } : {}),
    };
    const choice = isChat
      ? { message, ...(end === undefined ? {} : { stop_reason: end }) }
      : { text: said, logprobs: null };
    send(
      res,
      "application/json",
      JSON.stringify({ ...head, object, choices: [{ index: 0, ...choice, finish_reason: reason }], usage }),
    );
    return;
  }
  res.writeHead(200, { "content-type": "text/event-stream" });
  const frame = (choices: unknown, extra: object = {}) =>
    res.write(
      `data: ${JSON.stringify({ ...head, object: isChat ? `${object}.chunk` : object, choices, ...extra })}\n\n`,
    );
  for (const word of words) {
    const part = isChat ? { delta: { role: "assistant", content: word } } : { text: word };
    frame([{ index: 0, ...part, finish_reason: null }]);
  }
  for (const call of called)
    frame([{ index: 0, delta: { role: "assistant", tool_calls: [call] }, finish_reason: null }]);
  frame([{ index: 0, ...(isChat ? { delta: {} } : { text: "" }), finish_reason: reason }]);
  frame([], { usage });
  res.end("data: [DONE]\n\n");
}

const rankingUsage = { prompt_tokens: 1, total_tokens: 1 };

const ranked = ({ documents }: Body) => ({
  results: (documents as readonly unknown[]).map((_, index) => ({ index, relevance_score: 1 / (index + 1) })),
  usage: rankingUsage,
});

const scored = ({ text_2: documents }: Body) => ({
  data: (documents as readonly unknown[]).map((_, index) => ({ object: "score", index, score: 1 / (index + 1) })),
  usage: rankingUsage,
});

function embeddings({ input, model, encoding_format: format }: Body): object {
  const count = Array.isArray(input) && typeof input[0] !== "number" ? input.length : 1;
  const vector = [0.25, -0.5, 1];
  const base64 = Buffer.from(new Float32Array(vector).buffer).toString("base64");
  return {
    object: "list",
    data: Array.from({ length: count }, (_, index) => ({
      object: "embedding",
      index,
      embedding: format === "base64" ? base64 : vector,
    })),
    model,
    usage: { prompt_tokens: 4, total_tokens: 4 },
  };
}
