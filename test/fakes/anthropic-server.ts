// A server of Anthropic's Messages API by its published shape: it requires key and version, refuses fields that it does not know and
// turns out of order, and replies whole or as events. Its replies follow from the request, so that tests can name them.
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

type Fields = Record<string, unknown>;

export interface AnthropicServer {
  readonly origin: string;
  /** Bodies of messages that it read. */
  readonly asked: Fields[];
  /** The header that had the key, and the version, of each. */
  readonly heads: [string, string][];
  /** Streams end with an error of this kind after their first event, until it is undefined. */
  failInStream(type: string | undefined): void;
  /** The next messages get this error until it is undefined. */
  fail(error: { readonly status: number; readonly type: string; readonly retryAfter?: number } | undefined): void;
  close(): Promise<void>;
}

/** 28 of the prompt, of which 5 were cached and 3 written to the cache; 7 of the reply. */
export const tokens = {
  input_tokens: 20,
  cache_read_input_tokens: 5,
  cache_creation_input_tokens: 3,
  output_tokens: 7,
};
/** Those published; the older one is the shape here, and Anthropic's client sends the newer one. */
const versions: ReadonlySet<string> = new Set(["2023-06-01", "2026-10-21"]);
const known = new Set([
  ...["model", "messages", "max_tokens", "system", "stream", "stop_sequences", "temperature", "top_p", "top_k"],
  ...["tools", "tool_choice", "thinking", "metadata", "output_config"],
]);

export async function startAnthropicServer(model: string, key: string): Promise<AnthropicServer> {
  const asked: Fields[] = [];
  const heads: [string, string][] = [];
  let failsInStream: string | undefined;
  let failure: Parameters<AnthropicServer["fail"]>[0];
  const server = createServer((request, response) => {
    void answer(request, response).catch(() => response.destroy());
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const path = new URL(request.url ?? "", "http://localhost").pathname;
    const { "x-api-key": given, "anthropic-version": version, authorization: bearer } = request.headers;
    // Anthropic's newer clients send the key as a bearer token.
    if ((given === undefined ? bearer : `Bearer ${given}`) !== `Bearer ${key}`)
      return refuse(response, 401, "authentication_error", "invalid x-api-key");
    if (!versions.has(String(version)))
      return refuse(response, 400, "invalid_request_error", "anthropic-version: required");
    if (request.method === "GET" && path === "/v1/models")
      return json(response, 200, { data: [{ type: "model", id: model, display_name: model }], has_more: false });
    if (request.method !== "POST" || path !== "/v1/messages")
      return refuse(response, 404, "not_found_error", "Not found");
    if (failure) {
      if (failure.retryAfter !== undefined) response.setHeader("retry-after", failure.retryAfter);
      return refuse(response, failure.status, failure.type, "as scripted");
    }
    const asks = JSON.parse(body) as Fields;
    const sampled = ["temperature", "top_p", "top_k"].find((field) => asks[field] !== undefined);
    const fault =
      version === "2026-10-21" && sampled !== undefined
        ? `${sampled}: Extra inputs are not permitted`
        : faultOf(asks, model);
    if (fault !== undefined) return refuse(response, 400, "invalid_request_error", fault);
    asked.push(asks);
    heads.push([bearer === undefined ? "x-api-key" : "authorization", String(version)]);
    const reply = replyOf(asks);
    if (asks["stream"] === true) return stream(response, reply, failsInStream);
    return json(response, 200, reply);
  }

  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    heads,
    failInStream: (type) => {
      failsInStream = type;
    },
    fail: (error) => {
      failure = error;
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

const refuse = (response: ServerResponse, status: number, type: string, message: string): void =>
  json(response, status, { type: "error", error: { type, message }, request_id: "req_1" });

interface Turn {
  readonly role: string;
  readonly content: string | readonly Fields[];
}

/** The first thing that the published rules refuse. */
export function faultOf(body: Fields, model: string): string | undefined {
  const unknown = Object.keys(body).find((field) => !known.has(field));
  if (unknown !== undefined) return `${unknown}: Extra inputs are not permitted`;
  if (body["model"] !== model) return `model: ${String(body["model"])}`;
  if (!Number.isInteger(body["max_tokens"]) || (body["max_tokens"] as number) < 1) return "max_tokens: Field required";
  const temperature = (body["temperature"] ?? 1) as number;
  if (temperature < 0 || temperature > 1) return "temperature: range: 0..1";
  const thinking = body["thinking"] as { readonly type: string; readonly budget_tokens: number } | undefined;
  if (thinking?.type === "enabled") {
    const isInRange = thinking.budget_tokens >= 1024 && thinking.budget_tokens < (body["max_tokens"] as number);
    if (!isInRange) return "thinking.budget_tokens: out of range";
    if (temperature !== 1 || body["top_k"] !== undefined) return "thinking: no sampling with it";
  }
  const turns = body["messages"] as readonly Turn[];
  if (!Array.isArray(turns) || turns[0]?.role !== "user") return "messages: first message must use the user role";
  let open: readonly unknown[] = [];
  for (const [i, { role, content }] of turns.entries()) {
    if (role !== (i % 2 === 0 ? "user" : "assistant")) return `messages.${i}.role: roles must alternate`;
    if (content.length === 0) return `messages.${i}.content: must be non-empty`;
    const blocks: readonly Fields[] = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const bad = blocks.map(blockFault).find((fault) => fault !== undefined);
    if (bad !== undefined) return `messages.${i}.content: ${bad}`;
    const idsOf = (type: string, field: string) =>
      blocks.filter((block) => block["type"] === type).map((block) => block[field]);
    if (JSON.stringify(idsOf("tool_result", "tool_use_id").toSorted()) !== JSON.stringify(open.toSorted()))
      return `messages.${i}: tool_use ids must be followed by their results`;
    open = idsOf("tool_use", "id");
  }
  return undefined;
}

function blockFault(block: Fields): string | undefined {
  switch (block["type"]) {
    case "text":
      return typeof block["text"] === "string" && block["text"] !== "" ? undefined : "text must be non-empty";
    case "image": {
      const source = block["source"] as Fields;
      const isOne = source["type"] === "base64" && /^image\/(png|jpeg|gif|webp)$/.test(String(source["media_type"]));
      return isOne ? undefined : "image.source";
    }
    case "tool_use":
      return /^[a-zA-Z0-9_-]+$/.test(String(block["id"])) && typeof block["input"] === "object"
        ? undefined
        : "tool_use.id";
    case "tool_result":
      return typeof block["content"] === "string" ? undefined : "tool_result.content";
    default:
      return `type ${String(block["type"])}`;
  }
}

function replyOf(asks: Fields) {
  const tools = (asks["tools"] ?? []) as readonly { readonly name: string }[];
  const choice = asks["tool_choice"] as { readonly type: string } | undefined;
  const last = (asks["messages"] as readonly Turn[]).at(-1)?.content;
  const isResult = Array.isArray(last) && last.some(({ type }: Fields) => type === "tool_result");
  const isCall = tools.length > 0 && choice?.type !== "none" && !isResult;
  const thought =
    (asks["thinking"] as Fields | undefined)?.["type"] === "enabled"
      ? [{ type: "thinking", thinking: "Hm, well.", signature: "c2ln" }]
      : [];
  const called = { type: "tool_use", id: "toolu_1", name: tools[0]?.name, input: { city: "Rome", n: 5 } };
  return {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: asks["model"],
    content: [...thought, { type: "text", text: "One two three" }, ...(isCall ? [called] : [])] as Fields[],
    stop_reason: isCall ? "tool_use" : "end_turn",
    stop_sequence: null,
    usage: tokens,
  };
}

function stream(
  response: ServerResponse,
  { content, stop_reason, usage, ...message }: ReturnType<typeof replyOf>,
  failsWith: string | undefined,
): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (type: string, fields: object): void => {
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  };
  const started = { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } };
  send("message_start", { message: started });
  send("ping", {});
  if (failsWith !== undefined) {
    send("error", { error: { type: failsWith, message: "as scripted" } });
    response.end();
    return;
  }
  for (const [index, block] of content.entries()) {
    const { begin, deltas } = partsOf(block);
    send("content_block_start", { index, content_block: begin });
    for (const delta of deltas) send("content_block_delta", { index, delta });
    send("content_block_stop", { index });
  }
  send("message_delta", {
    delta: { stop_reason, stop_sequence: null },
    usage: { output_tokens: usage.output_tokens },
  });
  send("message_stop", {});
  response.end();
}

function partsOf(block: Fields): { readonly begin: object; readonly deltas: readonly object[] } {
  const pieces = (text: string) => text.match(/.{1,6}/g) ?? [];
  switch (block["type"]) {
    case "thinking":
      return {
        begin: { type: "thinking", thinking: "", signature: "" },
        deltas: [
          ...pieces(block["thinking"] as string).map((thinking) => ({ type: "thinking_delta", thinking })),
          { type: "signature_delta", signature: block["signature"] },
        ],
      };
    case "tool_use":
      return {
        begin: { ...block, input: {} },
        deltas: pieces(JSON.stringify(block["input"])).map((partial_json) => ({
          type: "input_json_delta",
          partial_json,
        })),
      };
    default:
      return {
        begin: { type: "text", text: "" },
        deltas: pieces(block["text"] as string).map((text) => ({ type: "text_delta", text })),
      };
  }
}
