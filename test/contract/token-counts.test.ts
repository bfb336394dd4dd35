// Counts of tokens by the engine's own tokenizer: the real edge and the real ingress in front of servers that count differently.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic, { BadRequestError, NotFoundError, RateLimitError } from "@anthropic-ai/sdk";
import { afterEach, describe, expect, it } from "vitest";
import { InsufficientFunds } from "../../control-plane/billing/hold.ts";
import { ada, apiKey, servedModel } from "../fakes/ports.ts";
import { startTaskEdge, type TaskEdge } from "../fakes/task-edge.ts";
import { check } from "./status-row.ts";

type Fields = Readonly<Record<string, unknown>>;
/** Reply of an engine; a number is a status. */
type Replies = Readonly<Record<string, (body: Fields) => object | number>>;

interface Counting extends TaskEdge {
  readonly client: Anthropic;
  readonly requests: { readonly path: string; readonly body: Fields }[];
}

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function start(replies: Replies, change: Parameters<typeof servedModel>[0] = {}): Promise<Counting> {
  const requests: Counting["requests"] = [];
  const server = createServer((req, res) => {
    const parts: Buffer[] = [];
    req.on("data", (part: Buffer) => parts.push(part));
    req.on("end", () => {
      const path = req.url ?? "/";
      const body: Fields = parts.length > 0 ? JSON.parse(Buffer.concat(parts).toString()) : {};
      if (req.method === "POST") requests.push({ path, body });
      const reply = replies[path]?.(body) ?? 404;
      const isError = typeof reply === "number";
      res.writeHead(isError ? reply : 200, { "content-type": "application/json" });
      res.end(JSON.stringify(isError ? { error: { message: "Not Found", code: "not_found" } } : reply));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const tasks = await startTaskEdge(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  closers.push(tasks.close, async () => {
    server.close();
    server.closeAllConnections();
  });
  tasks.offer(change);
  const client = new Anthropic({ apiKey, baseURL: tasks.edge.url, maxRetries: 0 });
  return { ...tasks, client, requests } as Counting;
}

const vllm: Replies = { "/tokenize": () => ({ count: 42, max_model_len: 4096, tokens: [1, 2] }) };
const llamaCpp: Replies = {
  "/apply-template": ({ messages }) => ({
    prompt: `<${(messages as readonly Fields[]).map((one) => one["content"])}>`,
  }),
  "/tokenize": ({ content = "" }) => ({ tokens: [...(content as string)].map((_, i) => i) }),
};
const external = { engine: "external" } as const;
const hello: Anthropic.MessageCountTokensParams = {
  model: "org/model",
  messages: [{ role: "user", content: "Hello" }],
};
const image: Anthropic.ImageBlockParam = {
  type: "image",
  source: { type: "base64", media_type: "image/png", data: "aGk=" },
};

describe("counting tokens", () => {
  it("sends the prompt as chat has it to the engine, under the engine's name of the model", async () => {
    const { client, requests } = await start(vllm);
    const counted = await client.messages.countTokens({
      ...hello,
      system: "Be brief.",
      tools: [{ name: "f", input_schema: { type: "object" } }],
      thinking: { type: "disabled" },
    });
    expect(counted).toEqual({ input_tokens: 42 });
    expect(requests).toEqual([
      {
        path: "/tokenize",
        body: {
          model: "as-served",
          messages: [
            { role: "system", content: "Be brief." },
            { role: "user", content: "Hello" },
          ],
          tools: [{ type: "function", function: { name: "f", parameters: { type: "object" } } }],
          reasoning: { enabled: false },
          chat_template_kwargs: { enable_thinking: false, thinking: false },
        },
      },
    ]);
  });

  it("starts no message where the last one is to be continued", async () => {
    const { client, requests } = await start(vllm, external);
    await client.messages.countTokens({
      ...hello,
      messages: [...hello.messages, { role: "assistant", content: "Hi" }],
    });
    expect(requests[0]?.body).toMatchObject({ continue_final_message: true, add_generation_prompt: false });
  });

  it("renders and counts in two steps where the server has no other way", async () => {
    const { client, requests } = await start(llamaCpp, external);
    expect(await client.messages.countTokens(hello)).toEqual({ input_tokens: "<Hello>".length });
    expect(requests.map(({ path }) => path)).toEqual(["/tokenize", "/apply-template", "/tokenize"]);
    expect(requests[2]?.body).toEqual({ model: "as-served", content: "<Hello>", add_special: true });
  });

  it("counts for an account without funds, and holds and charges nothing", async () => {
    const { client, edge } = await start(vllm);
    const hold = edge.budgets.hold.bind(edge.budgets);
    edge.budgets.hold = (request) => {
      if (request.full > 0n) throw new InsufficientFunds();
      return hold(request);
    };
    expect(await client.messages.countTokens(hello)).toEqual({ input_tokens: 42 });
    expect(edge.budgets.holds.map(({ request, end }) => [request.full, end])).toEqual([
      [0n, { how: "settled", cost: 0n, attempt: 1 }],
    ]);
  });

  it("counts as a request of the rate limits", async () => {
    const { client, edge } = await start(vllm);
    edge.rates.setOwnLimits(new Map([[ada.account, { concurrent: 1, tokensPerMinute: 1000, weight: 1 }]]));
    const { response } = await client.messages.countTokens(hello).withResponse();
    expect(response.headers.get("anthropic-ratelimit-requests-limit")).toBe("1");
    const permit = edge.rates.meter(ada.account, servedModel().deployId).take();
    await expect(client.messages.countTokens(hello)).rejects.toThrow(RateLimitError);
    permit.end(0);
  });

  it("refuses where the server cannot count, and says what to do", async () => {
    const { client } = await start({}, external);
    const asking = client.messages.countTokens(hello);
    await expect(asking).rejects.toThrow(BadRequestError);
    await expect(asking).rejects.toThrow(/server cannot count tokens. Send the message/);
  });

  it("refuses images where the server would count only their places", async () => {
    const { client, requests } = await start(vllm, external);
    const messages: Anthropic.MessageParam[] = [{ role: "user", content: [image] }];
    await expect(client.messages.countTokens({ ...hello, messages })).rejects.toThrow(
      /cannot count the tokens of images/,
    );
    expect(requests).toEqual([]);
  });

  it("keeps the engine's message where its template refuses the messages", async () => {
    const { client } = await start({ "/tokenize": () => 400 });
    await expect(client.messages.countTokens(hello)).rejects.toThrow(BadRequestError);
  });

  it("fails with 502 where the engine sends something else", async () => {
    const { client } = await start({ ...llamaCpp, "/apply-template": () => ({ text: "?" }) }, external);
    await expect(client.messages.countTokens(hello)).rejects.toMatchObject({ status: 502, type: "api_error" });
  });

  it("knows no model that chat does not know", async () => {
    const { client } = await start(vllm);
    await expect(client.messages.countTokens({ ...hello, model: "nobody/knows" })).rejects.toThrow(NotFoundError);
  });

  it("keeps to the model that an alias chose for the first step", async () => {
    const { client, edge, requests } = await start(llamaCpp, external);
    const names = ["org/one", "org/two"];
    edge.models.models = names.map((name) => servedModel({ ...external, name, servedName: name }));
    const targets = names.map((model) => ({ model, weight: 1 }));
    edge.models.named = [{ name: "any", account: null, targets, fallbacks: [], isSticky: false, updatedAtMs: 0 }];
    for (let i = 0; i < 10; i++) {
      requests.length = 0;
      expect(await client.messages.countTokens({ ...hello, model: "any" })).toEqual({ input_tokens: 7 });
      expect(requests).toHaveLength(3);
      expect(new Set(requests.map(({ body }) => body["model"])).size).toBe(1);
    }
  });
});

describe.each(["/v1/messages/count_tokens", "/anthropic/v1/messages/count_tokens"])("POST %s", (path) => {
  const call = `POST ${path}` as const;
  const type = (of: string) => ({ type: "error", error: { type: of } });

  it("returns 401 without a key", () =>
    check({ call, status: 401, key: null, body: hello, holds: type("authentication_error") }));
  it("returns 422 without messages", () =>
    check({ call, status: 422, body: { model: "org/model" }, holds: type("invalid_request_error") }));
  it("returns 503 while the model has no instance", () =>
    check({
      call,
      status: 503,
      body: hello,
      holds: type("overloaded_error"),
      headers: { "x-stoker-phase": "deployed" },
    }));
});
