// A stand-in for a server that speaks chat, Responses and Messages, with the shapes of llama.cpp's server. The reply is a function of
// the conversation, which each format states in its own way; a token is a word.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Fields = Readonly<Record<string, unknown>>;

export interface FormatsEngine {
  readonly origin: string;
  /** Paths of the requests that it generated for. */
  readonly paths: string[];
  /** Paths of requests without a model, which it refuses. */
  readonly refused: string[];
  /** Paths that it replies 404 to, as another version would. */
  readonly missing: Set<string>;
  /** Slots as llama.cpp's server reports them. */
  slots: unknown;
  /** As vLLM reports it; a number: the status of a reply without it. */
  version: string | number;
  /** Status of each reply to a request that it would refuse. */
  refusal: number;
  /** Streams end after so many frames: the socket breaks or hangs. Undefined: they are whole. */
  stop: { readonly frames: number; readonly how: "breaks" | "hangs" } | undefined;
  close(): Promise<void>;
}

interface Prompt {
  readonly turns: readonly (readonly string[])[];
  readonly tools: readonly string[];
  readonly max: number;
  readonly stops: readonly string[];
}

interface Reply {
  readonly words: readonly string[];
  readonly call: { readonly id: string; readonly name: string; readonly arguments: string } | undefined;
  readonly isCut: boolean;
  readonly stop: string | undefined;
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

const list = (value: unknown): readonly Fields[] => (Array.isArray(value) ? (value as readonly Fields[]) : []);
const text = (value: unknown): string =>
  typeof value === "string"
    ? value
    : list(value)
        .map((part) => String(part["text"] ?? ""))
        .join("");
const names = (tools: unknown): readonly string[] =>
  list(tools).map((tool) => String(tool["name"] ?? (tool["function"] as Fields)["name"]));

function chatPrompt(body: Fields): Prompt {
  const turns = list(body["messages"]).flatMap((message) => [
    ...(text(message["content"]) === "" ? [] : [[String(message["role"]), text(message["content"])]]),
    ...list(message["tool_calls"]).map((call) => {
      const { name, arguments: given } = call["function"] as Fields;
      return ["call", String(call["id"]), String(name), compact(given)];
    }),
  ]);
  const stops = (body["stop"] ?? []) as readonly string[];
  return { turns, tools: names(body["tools"]), max: Number(body["max_tokens"]), stops };
}

const compact = (given: unknown): string => JSON.stringify(typeof given === "string" ? JSON.parse(given) : given);

function responsePrompt(body: Fields): Prompt {
  const system = body["instructions"] === undefined ? [] : [["system", String(body["instructions"])]];
  const turns = list(body["input"]).map((item) => {
    switch (item["type"]) {
      case "message":
        return [String(item["role"]), text(item["content"])];
      case "function_call":
        return ["call", String(item["call_id"]), String(item["name"]), compact(item["arguments"])];
      case "function_call_output":
        return ["tool", text(item["output"])];
      default:
        throw new TypeError("Cannot determine type of 'item'");
    }
  });
  const max = Number(body["max_output_tokens"]);
  return { turns: [...system, ...turns], tools: names(body["tools"]), max, stops: [] };
}

function messagePrompt(body: Fields): Prompt {
  const system = body["system"] === undefined ? [] : [["system", text(body["system"])]];
  const turns = list(body["messages"]).flatMap(({ role, content }) => {
    if (typeof content === "string") return [[String(role), content]];
    return list(content).map((block) => {
      if (block["type"] === "tool_use")
        return ["call", String(block["id"]), String(block["name"]), compact(block["input"])];
      return block["type"] === "tool_result" ? ["tool", text(block["content"])] : [String(role), String(block["text"])];
    });
  });
  const stops = (body["stop_sequences"] ?? []) as readonly string[];
  return { turns: [...system, ...turns], tools: names(body["tools"]), max: Number(body["max_tokens"]), stops };
}

const vocabulary = ["one", "Grüße", "世界", "\u{1F30D}", '"quoted"', "line\nbreak", "data:", "[DONE]"];

function replyTo({ turns, tools, max, stops }: Prompt): Reply {
  const bytes = createHash("sha256")
    .update(JSON.stringify([turns, tools]))
    .digest();
  const input = JSON.stringify(turns).split(/\W+/).length;
  const cached = (bytes[0] ?? 0) % (input + 1);
  const all = [...bytes.subarray(1, 3 + ((bytes[3] ?? 0) % 20))].map((byte) => ` ${vocabulary[byte % 8]}`);
  const [tool] = tools;
  const hasCall = tool !== undefined && (bytes[4] ?? 0) % 2 === 0;
  const stopAt = all.findIndex((word) => stops.some((stop) => word.includes(stop)));
  const kept = (stopAt < 0 ? all : all.slice(0, stopAt)).slice(0, max);
  const isCut = stopAt < 0 && all.length > max;
  const stop = stopAt >= 0 && stopAt < max ? stops.find((one) => all[stopAt]?.includes(one)) : undefined;
  const given = JSON.stringify({ city: all.join("") });
  const call = hasCall && !isCut ? { id: `c${bytes[5]}`, name: tool, arguments: given } : undefined;
  return { words: kept, call, isCut, stop, input, cached, output: Math.min(max, kept.length + 1) };
}

const frame = (data: Fields): string =>
  `${typeof data["type"] === "string" ? `event: ${data["type"]}\n` : ""}data: ${JSON.stringify(data)}\n\n`;

function chat(reply: Reply, isStream: boolean): string {
  const { words, call, isCut, input, cached, output } = reply;
  const finish_reason = isCut ? "length" : call ? "tool_calls" : "stop";
  const usage = {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  };
  const calls = call
    ? [{ index: 0, id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } }]
    : undefined;
  if (!isStream) {
    const message = { role: "assistant", content: words.join(""), ...(calls ? { tool_calls: calls } : {}) };
    return JSON.stringify({ object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage });
  }
  const chunk = (delta: object, reason: string | null = null) =>
    frame({ choices: [{ index: 0, delta, finish_reason: reason }] });
  const parts = [
    chunk({ role: "assistant", content: null }),
    ...words.map((content) => chunk({ content })),
    ...(calls ? [chunk({ tool_calls: calls })] : []),
    chunk({}, finish_reason),
    frame({ choices: [], usage }),
  ];
  return `${parts.join("")}data: [DONE]\n\n`;
}

/** Its events have no numbers and indexes, and it calls a response completed that its limit ended. */
function response({ words, call, input, cached, output }: Reply, isStream: boolean): string {
  const usage = {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    input_tokens_details: { cached_tokens: cached },
  };
  const said = words.join("");
  const message = { type: "message", id: "msg_e", role: "assistant", status: "completed" };
  const full = { ...message, content: [{ type: "output_text", annotations: [], logprobs: [], text: said }] };
  const called = call && {
    type: "function_call",
    id: `fc_${call.id}`,
    call_id: call.id,
    name: call.name,
    arguments: call.arguments,
    status: "completed",
  };
  const items = [...(said === "" ? [] : [full]), ...(called ? [called] : [])];
  const whole = { id: "resp_e", object: "response", status: "completed", model: "engine", output: items, usage };
  if (!isStream) return JSON.stringify(whole);
  const events: Fields[] = [{ type: "response.created", response: { id: "resp_e", status: "in_progress" } }];
  if (said !== "") events.push({ type: "response.output_item.added", item: { ...message, content: [] } });
  for (const delta of words) events.push({ type: "response.output_text.delta", item_id: "msg_e", delta });
  if (called) {
    events.push({ type: "response.output_item.added", item: { ...called, arguments: "" } });
    const delta = called.arguments;
    events.push({ type: "response.function_call_arguments.delta", item_id: called.id, delta });
  }
  for (const item of items) events.push({ type: "response.output_item.done", item });
  events.push({ type: "response.completed", response: whole });
  return events.map(frame).join("");
}

function message({ words, call, isCut, stop, input, cached, output }: Reply): string {
  const said = words.join("");
  const content = [
    ...(said === "" ? [] : [{ type: "text", text: said }]),
    ...(call ? [{ type: "tool_use", id: call.id, name: call.name, input: JSON.parse(call.arguments) }] : []),
  ];
  return JSON.stringify({
    id: "chatcmpl-e",
    type: "message",
    role: "assistant",
    model: "engine",
    content,
    stop_reason: isCut ? "max_tokens" : call ? "tool_use" : "end_turn",
    stop_sequence: stop ?? null,
    usage: { cache_read_input_tokens: cached, input_tokens: input - cached, output_tokens: output },
  });
}

async function bodyOf(req: IncomingMessage): Promise<Fields> {
  const parts: Buffer[] = [];
  for await (const part of req) parts.push(part as Buffer);
  return JSON.parse(Buffer.concat(parts).toString() || "{}");
}

/** `owner`: `owned_by` of its models. */
export async function startFormatsEngine(models: readonly string[], owner: string): Promise<FormatsEngine> {
  const paths: string[] = [];
  const refused: string[] = [];
  const missing = new Set<string>();
  let engine: FormatsEngine;

  async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const path = req.url ?? "";
    const send = (status: number, value: string, type = "application/json") =>
      res.writeHead(status, { "content-type": type }).end(value);
    if (path === "/v1/models") {
      const data = models.map((id) => ({ id, object: "model", owned_by: owner }));
      return void send(200, JSON.stringify({ object: "list", data }));
    }
    if (path === "/health") return void send(200, "");
    if (path === "/props" && owner === "llamacpp") return void send(200, JSON.stringify({ total_slots: engine.slots }));
    if (path === "/version" && owner === "vllm") {
      const { version } = engine;
      return void (typeof version === "number" ? send(version, "") : send(200, JSON.stringify({ version })));
    }
    const isKnown = ["/v1/chat/completions", "/v1/responses", "/v1/messages"].includes(path) && !missing.has(path);
    if (req.method !== "POST" || !isKnown) return void send(404, '{"error":{"message":"File Not Found"}}');
    const body = await bodyOf(req);
    if (body["model"] === undefined) {
      refused.push(path);
      return void send(engine.refusal, '{"error":{"message":"the body has no model"}}');
    }
    paths.push(path);
    const isStream = body["stream"] === true;
    const type = isStream ? "text/event-stream" : "application/json";
    if (path === "/v1/messages") return void send(200, message(replyTo(messagePrompt(body))));
    const reply = path === "/v1/responses" ? response : chat;
    const prompt = path === "/v1/responses" ? responsePrompt(body) : chatPrompt(body);
    const whole = reply(replyTo(prompt), isStream);
    const { stop } = engine;
    if (!isStream || !stop) return void send(200, whole, type);
    const frames = whole.split(/(?<=\n\n)/).slice(0, stop.frames);
    res.writeHead(200, { "content-type": type }).write(frames.join(""));
    // The bytes written so far leave first.
    if (stop.how === "breaks") res.socket?.end(() => res.destroy());
  }

  const server = createServer((req, res) => {
    serve(req, res).catch(() => res.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  engine = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    paths,
    refused,
    missing,
    slots: 4,
    version: "0.32.0",
    refusal: 400,
    stop: undefined,
    close: async () => {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, "close");
    },
  };
  return engine;
}
