// Chat, Responses and Messages in front of one model, on a server that speaks chat alone and on one that speaks all three.
import Anthropic from "@anthropic-ai/sdk";
import fc from "fast-check";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { query } from "../../e2e/spine/database.ts";
import { type FormatsEngine, startFormatsEngine } from "../../fakes/formats-engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";

const models = { plain: "fake/plain", native: "fake/native" } as const;
type Server = keyof typeof models;
const engines = {} as Record<Server, FormatsEngine>;
let stack: Stack;

beforeAll(async () => {
  stack = await startStack({ agents: 1 });
  for (const server of ["plain", "native"] as const) {
    const name = models[server];
    engines[server] = await startFormatsEngine([name], server === "native" ? "llamacpp" : "another");
    const made = await stack.call("POST", "/v1/admin/external", {
      name,
      url: engines[server].origin,
      max_batch_size: 64,
    });
    const pricing = { input: 3, cached_input: 1, output: 20 };
    const offer = { deploy_id: made.body.deploy_id, description: "", pricing };
    expect((await stack.call("PUT", `/v1/admin/models/${name}`, offer)).status).toBe(200);
    const ask = { model: name, input: "Hi", max_output_tokens: 4 };
    await vi.waitFor(async () => expect((await stack.call("POST", "/v1/responses", ask)).status).toBe(200), {
      timeout: 60_000,
      interval: 100,
    });
  }
});
afterAll(async () => {
  await stack?.stop();
  await Promise.all(Object.values(engines).map((engine) => engine.close()));
});

interface Call {
  readonly id: string;
  readonly city: string;
  readonly result: string;
}
interface Request {
  readonly system: string | undefined;
  /** A question, and the reply to it; the last one has none. */
  readonly turns: readonly { readonly question: string; readonly reply: string; readonly call: Call | undefined }[];
  readonly question: string;
  readonly max: number;
  readonly stop: string | undefined;
  readonly hasTools: boolean;
}

const words = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }).filter((text) => text.trim() === text);
const turn = fc.record({
  question: words,
  reply: words,
  call: fc.option(
    fc.record({ id: fc.constantFrom("call_a", "call_b"), city: fc.constantFrom("Rome", "Zürich"), result: words }),
    { nil: undefined },
  ),
});
const request: fc.Arbitrary<Request> = fc.record({
  system: fc.option(words, { nil: undefined }),
  turns: fc.array(turn, { maxLength: 3 }),
  question: words,
  max: fc.integer({ min: 1, max: 30 }),
  // Responses have no stop sequences.
  stop: fc.option(fc.constantFrom("one", "data:", "\n"), { nil: undefined, freq: 2 }),
  hasTools: fc.boolean(),
});

interface Outcome {
  readonly text: string;
  readonly calls: readonly string[];
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}
interface Answer {
  readonly requestId: string;
  readonly outcome: Outcome;
}

const schema = { type: "object" as const, properties: { city: { type: "string" } } };
const describedTool = { name: "get_weather", description: "Weather of a city" };
const argumentsOf = ({ city }: Call) => JSON.stringify({ city });

interface Attempt {
  readonly request_id: string;
  readonly attempt: number;
  readonly charge: number;
  readonly source: string;
}

/** Attempts of these requests, once so many are billed. */
async function billed(ids: readonly string[], count = ids.length): Promise<readonly Attempt[]> {
  const text = `select request_id, attempt, charge::float8 as charge, source from usage
                where request_id = any($1) order by request_id, attempt`;
  return vi.waitFor(
    async () => {
      const found = await query<Attempt>(stack.databaseUrl, text, [ids]);
      expect(found).toHaveLength(count);
      return found;
    },
    { timeout: 10_000, interval: 20 },
  );
}

const options = () => ({ apiKey: stack.apiKey, maxRetries: 0 });
const openai = () => new OpenAI({ ...options(), baseURL: `${stack.url}/v1` });
const anthropic = () => new Anthropic({ ...options(), baseURL: stack.url });

async function chat(server: Server, { system, turns, question, max, stop, hasTools }: Request): Promise<Answer> {
  const tools = [{ type: "function" as const, function: { ...describedTool, parameters: schema } }];
  const { data, response } = await openai()
    .chat.completions.create({
      model: models[server],
      messages: [
        ...(system === undefined ? [] : [{ role: "system" as const, content: system }]),
        ...turns.flatMap(({ question: asked, reply, call }): OpenAI.ChatCompletionMessageParam[] => [
          { role: "user", content: asked },
          ...(call
            ? [
                {
                  role: "assistant" as const,
                  tool_calls: [
                    {
                      id: call.id,
                      type: "function" as const,
                      function: { name: describedTool.name, arguments: argumentsOf(call) },
                    },
                  ],
                },
                { role: "tool" as const, tool_call_id: call.id, content: call.result },
              ]
            : []),
          { role: "assistant", content: reply },
        ]),
        { role: "user", content: question },
      ],
      max_tokens: max,
      temperature: 0,
      ...(stop === undefined ? {} : { stop: [stop] }),
      ...(hasTools ? { tools } : {}),
    })
    .withResponse();
  const [choice] = data.choices;
  const outcome = {
    text: choice?.message.content ?? "",
    calls: (choice?.message.tool_calls ?? []).map((call) => (call.type === "function" ? call.function.arguments : "")),
    input: data.usage?.prompt_tokens ?? -1,
    cached: data.usage?.prompt_tokens_details?.cached_tokens ?? -1,
    output: data.usage?.completion_tokens ?? -1,
  };
  return { requestId: response.headers.get("x-stoker-request-id") ?? "", outcome };
}

async function responses(server: Server, request: Request, isStream: boolean): Promise<Answer> {
  const { system, turns, question, max, hasTools } = request;
  const tools = [{ type: "function" as const, strict: null, ...describedTool, parameters: schema }];
  const body: OpenAI.Responses.ResponseCreateParamsNonStreaming = {
    model: models[server],
    instructions: system ?? null,
    input: [
      ...turns.flatMap(({ question: asked, reply, call }): OpenAI.Responses.ResponseInputItem[] => [
        { role: "user", content: asked },
        ...(call
          ? ([
              { type: "function_call", call_id: call.id, name: describedTool.name, arguments: argumentsOf(call) },
              { type: "function_call_output", call_id: call.id, output: call.result },
            ] as const)
          : []),
        { role: "assistant", content: reply },
      ]),
      { role: "user", content: question },
    ],
    max_output_tokens: max,
    temperature: 0,
    ...(hasTools ? { tools } : {}),
  };
  const whole = isStream
    ? await openai()
        .responses.stream({ ...body, stream: true })
        .finalResponse()
    : await openai().responses.create(body);
  const { usage } = whole;
  expect(whole.model).toBe(models[server]);
  const outcome = {
    text: whole.output_text,
    calls: whole.output.flatMap((item) => (item.type === "function_call" ? [item.arguments] : [])),
    input: usage?.input_tokens ?? -1,
    cached: usage?.input_tokens_details.cached_tokens ?? -1,
    output: usage?.output_tokens ?? -1,
  };
  return { requestId: whole.id.slice("resp_".length), outcome };
}

async function messages(server: Server, request: Request, isStream: boolean): Promise<Answer> {
  const { system, turns, question, max, stop, hasTools } = request;
  const body: Anthropic.MessageCreateParamsNonStreaming = {
    model: models[server],
    messages: [
      ...turns.flatMap(({ question: asked, reply, call }): Anthropic.MessageParam[] => [
        { role: "user", content: asked },
        ...(call
          ? [
              {
                role: "assistant" as const,
                content: [
                  { type: "tool_use" as const, id: call.id, name: describedTool.name, input: { city: call.city } },
                ],
              },
              {
                role: "user" as const,
                content: [{ type: "tool_result" as const, tool_use_id: call.id, content: call.result }],
              },
            ]
          : []),
        { role: "assistant", content: reply },
      ]),
      { role: "user", content: question },
    ],
    max_tokens: max,
    ...(system === undefined ? {} : { system }),
    ...(stop === undefined ? {} : { stop_sequences: [stop] }),
    ...(hasTools ? { tools: [{ ...describedTool, input_schema: schema }] } : {}),
  };
  const whole = isStream
    ? await anthropic().messages.stream(body).finalMessage()
    : await anthropic().messages.create(body);
  const { content, usage, id, model } = whole;
  expect(model).toBe(models[server]);
  const outcome = {
    text: content.map((block) => (block.type === "text" ? block.text : "")).join(""),
    calls: content.flatMap((block) => (block.type === "tool_use" ? [JSON.stringify(block.input)] : [])),
    input: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
    cached: usage.cache_read_input_tokens ?? -1,
    output: usage.output_tokens,
  };
  return { requestId: id.slice("msg_".length), outcome };
}

describe("one request by chat, Responses and Messages", () => {
  it("gives the same text, usage and price, passed through or translated", async () => {
    const [responsesPath, messagesPath, chatPath] = ["/v1/responses", "/v1/messages", "/v1/chat/completions"];
    await fc.assert(
      fc.asyncProperty(request, async (asked) => {
        const expected = await chat("plain", asked);
        const answers = [expected];
        for (const server of ["plain", "native"] as const) {
          const own = (path: string) => (server === "native" ? path : chatPath);
          const { paths } = engines[server];
          paths.length = 0;
          const found = [
            await chat(server, asked),
            await messages(server, asked, false),
            await messages(server, asked, true),
            ...(asked.stop === undefined
              ? [await responses(server, asked, false), await responses(server, asked, true)]
              : []),
          ];
          expect(found.map(({ outcome }) => outcome)).toEqual(found.map(() => expected.outcome));
          answers.push(...found);
          // Streamed messages are translated.
          const passed = [chatPath, own(messagesPath), chatPath, own(responsesPath), own(responsesPath)];
          expect(paths).toEqual(passed.slice(0, found.length));
        }
        const attempts = await billed(answers.map(({ requestId }) => requestId));
        const charges = new Set(attempts.map(({ charge, source }) => `${source} ${charge}`));
        expect([...charges]).toEqual([expect.stringMatching(/^engine [1-9]/)]);
      }),
      { numRuns: 15, endOnFailure: true },
    );
  });

  it("continues a stored response with its conversation", async () => {
    const texts: string[][] = [];
    for (const server of ["plain", "native"] as const) {
      const { paths } = engines[server];
      paths.length = 0;
      const common = { model: models[server], max_output_tokens: 30, store: true };
      const first = await openai().responses.create({ ...common, input: "Hi" });
      const next = { ...common, previous_response_id: first.id, input: "Go on" };
      const second = await openai().responses.create(next);
      const stored = await openai().responses.retrieve(second.id);
      expect(stored.output_text).toBe(second.output_text);
      const path = server === "native" ? "/v1/responses" : "/v1/chat/completions";
      expect(paths).toEqual([path, path]);
      texts.push([first.output_text, second.output_text]);
    }
    expect(texts[1]).toEqual(texts[0]);
    expect(texts[0]?.[0]).not.toBe(texts[0]?.[1]);
  });

  it.each(["breaks", "hangs"] as const)("is billed for what was delivered of a stream that %s", async (how) => {
    const found: unknown[] = [];
    for (const server of ["plain", "native"] as const) {
      const body = { model: models[server], input: "Tell me more", max_output_tokens: 30 };
      const whole = await openai().responses.create(body);
      // Each word begins with a space.
      const delivered = whole.output_text.split(" ", 4).join(" ");
      // The first events contain no text: one of a chat, two of a response.
      const frames = 3 + (server === "native" ? 2 : 1);
      engines[server].stop = { frames, how };
      const types: string[] = [];
      let [id, said] = ["", ""];
      const stream = await openai().responses.create({ ...body, stream: true });
      for await (const event of stream) {
        if (event.type === "response.created") id = event.response.id;
        // Texts that arrive together are one event.
        if (event.type !== types.at(-1)) types.push(event.type);
        if (event.type === "response.output_text.delta") said += event.delta;
        if (how === "hangs" && said === delivered) break;
      }
      engines[server].stop = undefined;
      const [{ charge, source } = {}] = await billed([id.slice("resp_".length)]);
      found.push({ types, said, isDelivered: said === delivered, charge, source });
    }
    const [plain, native] = found as { types: string[]; charge: number; source: string }[];
    expect(native).toEqual(plain);
    expect(plain).toMatchObject({ isDelivered: true, charge: expect.any(Number), source: "counted" });
    expect(plain?.charge).toBeGreaterThan(0);
    expect(plain?.types.at(-1)).toBe(how === "breaks" ? "response.failed" : "response.output_text.delta");
  });

  it.each([
    ["its reply may be", { input: "Hi", max_output_tokens: 32_769 }],
    ["it is", { input: "Hi ".repeat(360_000), max_output_tokens: 8 }],
  ])("is translated where %s too large to pass in its own format", async (_name, body) => {
    const { paths } = engines.native;
    paths.length = 0;
    await openai().responses.create({ model: models.native, ...body });
    expect(paths).toEqual(["/v1/chat/completions"]);
  });

  it("falls back to chat on a server that lost the format, and bills the request once", async () => {
    const asked = { system: undefined, turns: [], question: "Hi", max: 8, stop: undefined, hasTools: false };
    const expected = await chat("plain", asked);
    const { paths, missing } = engines.native;
    missing.add("/v1/responses").add("/v1/messages");
    paths.length = 0;
    const found = await openai().responses.create({ model: models.native, input: "Hi", max_output_tokens: 8 });
    expect([found.output_text, paths]).toEqual([expected.outcome.text, ["/v1/chat/completions"]]);
    const [only] = await billed([expected.requestId]);
    const attempts = await billed([found.id.slice("resp_".length)], 2);
    expect(attempts.map(({ charge }) => charge)).toEqual([0, only?.charge]);
    missing.clear();
  });
});

describe("service tiers", () => {
  const ask = async (service_tier?: "auto" | "flex" | "priority") => {
    const create = openai().chat.completions.create({
      model: models.plain,
      messages: [{ role: "user", content: "Which tier is this?" }],
      max_tokens: 8,
      ...(service_tier && { service_tier }),
    });
    const { data, response } = await create.withResponse();
    const id = response.headers.get("x-stoker-request-id") ?? "";
    const [attempt] = await billed([id]);
    const { body } = await stack.call("GET", `/v1/requests/${id}`);
    return {
      answered: data.service_tier,
      logged: body.attempts[0].service_tier,
      charge: attempt?.charge ?? Number.NaN,
    };
  };

  it("cost their part of the rates, priority only for accounts that may use it, as the log shows", async () => {
    const price = { kind: "model", subject: models.plain, rates: { input: 3, cached_input: 1, output: 20 } };
    const set = await stack.call("POST", "/v1/admin/prices", { ...price, tiers: { priority: 2, flex: 0.5 } });
    expect(set.status, JSON.stringify(set.body)).toBe(200);
    const flex = { answered: "flex", logged: "flex" };
    // Prices are read every few seconds.
    const usual = (await ask()).charge;
    await vi.waitFor(async () => expect(await ask("flex")).toMatchObject({ ...flex, charge: usual / 2 }), {
      timeout: 30_000,
      interval: 100,
    });
    expect(await ask("auto")).toEqual({ answered: "default", logged: "default", charge: usual });
    expect(await ask("priority")).toEqual({ answered: "default", logged: "default", charge: usual });

    const { uid } = (await stack.call("GET", "/v1/me")).body;
    const allowed = await stack.call("PATCH", `/v1/admin/accounts/${uid}`, { may_prioritize: true });
    expect(allowed.status, JSON.stringify(allowed.body)).toBe(200);
    await vi.waitFor(
      async () =>
        expect(await ask("priority")).toEqual({ answered: "priority", logged: "priority", charge: usual * 2 }),
      { timeout: 30_000, interval: 100 },
    );
  });
});
