// Requests in their own format and translated ones, in front of llama.cpp's own server with real weights.
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createProbe } from "../../../agent/reconcile/health.ts";
import type { FormatSkill } from "../../../proto/api-formats.ts";
import { hasLlamaServer, startLlamaServer } from "../../fakes/llama-server.ts";
import type { ModelServer } from "../../fakes/model-server.ts";
import { isNightly } from "../../fakes/nightly.ts";
import { apiKey } from "../../fakes/ports.ts";
import { startTaskEdge, type TaskEdge } from "../../fakes/task-edge.ts";
import { hasModel, modelFile } from "./runtime-process.ts";

const model = "org/model";
const promise = "the same reply of llama.cpp's server by every format";
const question = "Count from one to five, with commas.";
const weather = {
  name: "get_weather",
  description: "Weather of a city",
  schema: { type: "object", properties: { city: { type: "string", maxLength: 12 } }, required: ["city"] },
};

interface Recorder {
  readonly origin: string;
  /** Paths of the requests so far. */
  readonly paths: string[];
  close(): Promise<void>;
}

/** Forwards every request, and records its path. */
async function startRecorder(to: string): Promise<Recorder> {
  const paths: string[] = [];
  const proxy = createServer((req, res) => {
    if (req.method === "POST") paths.push(req.url ?? "");
    const onward = request(to + req.url, { method: req.method, headers: req.headers }, (reply) => {
      res.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(res);
    });
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  return {
    origin: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    paths,
    close: async () => {
      proxy.closeAllConnections();
      proxy.close();
      await once(proxy, "close");
    },
  };
}

describe.runIf(isNightly && hasLlamaServer(promise) && hasModel(promise))("llama.cpp's server", () => {
  let server: ModelServer;
  let tasks: TaskEdge;
  let formats: readonly FormatSkill[];
  let recorder: Recorder;
  beforeAll(async () => {
    // The model's own template has no tools.
    server = await startLlamaServer(modelFile, "smol", { template: join(import.meta.dirname, "hermes.jinja") });
    const target = {
      instanceId: "i",
      servedModelName: "smol",
      isExternal: true,
      origin: server.origin,
      secret: undefined,
    };
    const health = await createProbe()(target, new AbortController().signal);
    formats = (health.kind === "ready" && health.formats) || [];
    recorder = await startRecorder(server.origin);
    tasks = await startTaskEdge(recorder.origin);
    tasks.offer({
      servedName: "smol",
      engine: "external",
      rates: { input: 20_000_000n, cachedInput: 10_000_000n, output: 40_000_000n },
    });
  }, 60_000);
  afterAll(async () => {
    await tasks?.close();
    await recorder?.close();
    await server?.stop();
  });

  const speak = (skills: readonly FormatSkill[]) => {
    const { routes } = tasks.edge;
    routes.routes = routes.routes.map((route) => ({ ...route, formats: new Set(skills) }));
  };

  // biome-ignore lint/suspicious/noExplicitAny: replies are asserted field by field.
  async function post(path: string, body: object): Promise<any> {
    const reply = await fetch(tasks.edge.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model, ...body }),
    });
    const json = await reply.json();
    expect(reply.status, JSON.stringify(json)).toBe(200);
    return json;
  }

  interface Outcome {
    readonly text: string;
    readonly calls: readonly string[];
    readonly input: number;
    readonly cached: number;
    readonly output: number;
    readonly price: unknown;
  }

  type Turn = { readonly role: "user" | "assistant"; readonly content: string };
  interface Request {
    readonly system?: string;
    readonly turns: readonly Turn[];
    readonly max: number;
    readonly stop?: readonly string[];
    readonly hasTools?: boolean;
  }

  async function byChat({ system, turns, max, stop, hasTools }: Request): Promise<Outcome> {
    const { choices, usage } = await post("/v1/chat/completions", {
      messages: [...(system ? [{ role: "system", content: system }] : []), ...turns],
      max_tokens: max,
      temperature: 0,
      ...(stop ? { stop } : {}),
      ...(hasTools
        ? {
            tools: [
              {
                type: "function",
                function: { name: weather.name, description: weather.description, parameters: weather.schema },
              },
            ],
            tool_choice: "required",
          }
        : {}),
    });
    const [{ message }] = choices;
    return {
      text: message.content ?? "",
      // biome-ignore lint/suspicious/noExplicitAny: as above.
      calls: (message.tool_calls ?? []).map((call: any) => call.function.name + call.function.arguments),
      input: usage.prompt_tokens,
      cached: usage.prompt_tokens_details.cached_tokens,
      output: usage.completion_tokens,
      price: tasks.settled(),
    };
  }

  async function byResponses({ system, turns, max, hasTools }: Request, isStream: boolean): Promise<Outcome> {
    const openai = new OpenAI({ apiKey, baseURL: `${tasks.edge.url}/v1`, maxRetries: 0 });
    const body: OpenAI.Responses.ResponseCreateParamsNonStreaming = {
      model,
      instructions: system ?? null,
      input: [...turns],
      max_output_tokens: max,
      temperature: 0,
      ...(hasTools
        ? {
            tools: [
              {
                type: "function" as const,
                strict: null,
                name: weather.name,
                description: weather.description,
                parameters: weather.schema,
              },
            ],
            tool_choice: "required" as const,
          }
        : {}),
    };
    const response = isStream
      ? await openai.responses.stream({ ...body, stream: true }).finalResponse()
      : await openai.responses.create(body);
    const { usage } = response;
    return {
      text: response.output_text,
      calls: response.output.flatMap((item) => (item.type === "function_call" ? [item.name + item.arguments] : [])),
      input: usage?.input_tokens ?? 0,
      cached: usage?.input_tokens_details.cached_tokens ?? 0,
      output: usage?.output_tokens ?? 0,
      price: tasks.settled(),
    };
  }

  async function byMessages({ system, turns, max, stop, hasTools }: Request): Promise<Outcome> {
    const { content, usage } = await post("/v1/messages", {
      messages: turns,
      max_tokens: max,
      temperature: 0,
      ...(system ? { system } : {}),
      ...(stop ? { stop_sequences: stop } : {}),
      ...(hasTools
        ? {
            tools: [{ name: weather.name, description: weather.description, input_schema: weather.schema }],
            tool_choice: { type: "any" },
          }
        : {}),
    });
    // biome-ignore lint/suspicious/noExplicitAny: as above.
    const blocks = content as any[];
    return {
      text: blocks.map(({ text }) => text ?? "").join(""),
      calls: blocks.flatMap(({ name, input }) => (name === undefined ? [] : [name + JSON.stringify(input)])),
      input: usage.input_tokens + usage.cache_read_input_tokens,
      cached: usage.cache_read_input_tokens,
      output: usage.output_tokens,
      price: tasks.settled(),
    };
  }

  it("reports the formats that it speaks", () => {
    const spoken = ["responses", "responses_stream", "responses_tools", "messages", "messages_tools"];
    expect(formats).toEqual([...spoken, "llama_sampling"]);
  });

  it.each<[string, Request]>([
    ["one message", { turns: [{ role: "user", content: question }], max: 24 }],
    ["a system prompt", { system: "Be brief.", turns: [{ role: "user", content: question }], max: 24 }],
    [
      "a conversation",
      {
        system: "Be brief.",
        turns: [
          { role: "user", content: question },
          { role: "assistant", content: "One, two." },
          { role: "user", content: "Grüße, 世界 \u{1F30D}. Go on." },
        ],
        max: 24,
      },
    ],
    ["a first token that is part of a character", { turns: [{ role: "user", content: "🙂🙂🙂🙂" }], max: 5 }],
    ["one token", { turns: [{ role: "user", content: question }], max: 1 }],
    ["a tool", { turns: [{ role: "user", content: "What is the weather in Rome?" }], max: 100, hasTools: true }],
  ])(
    "gives the text, usage and price of chat by Responses and Messages, passed through or translated: %s",
    async (_name, request) => {
      speak([]);
      // Evaluated before, so that all find the same prompt in the cache.
      await byChat(request);
      const chat = await byChat(request);
      const compact = (call: string) => call.replaceAll(/\s/g, "");
      const seen = ({ calls, ...rest }: Outcome) => ({ ...rest, calls: calls.map(compact) });
      expect(chat.output).toBeGreaterThan(0);
      for (const skills of [[], formats]) {
        speak(skills);
        for (const isStream of [false, true])
          expect(seen(await byResponses(request, isStream)), `responses ${skills.length}`).toEqual(seen(chat));
        expect(seen(await byMessages(request)), `messages ${skills.length}`).toEqual(seen(chat));
      }
    },
  );

  it("ends at the stop sequence of a message, passed through or translated", async () => {
    const request = { turns: [{ role: "user" as const, content: question }], max: 24 };
    speak([]);
    const { text } = await byChat(request);
    const stop = [text.slice(3, 7)];
    await byChat({ ...request, stop });
    const chat = await byChat({ ...request, stop });
    expect(chat.text).toBe(text.slice(0, text.indexOf(stop[0] as string)));
    for (const skills of [[], formats]) {
      speak(skills);
      expect(await byMessages({ ...request, stop })).toEqual(chat);
    }
  });

  it("refuses a prompt beyond its context alike", async () => {
    const long = "word ".repeat(8_000);
    for (const skills of [[], formats]) {
      speak(skills);
      for (const [path, body] of [
        ["/v1/responses", { input: long, max_output_tokens: 4 }],
        ["/v1/messages", { messages: [{ role: "user", content: long }], max_tokens: 4 }],
      ] as const) {
        const reply = await fetch(tasks.edge.url + path, {
          method: "POST",
          headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
          body: JSON.stringify({ model, ...body }),
        });
        expect([reply.status, await reply.text()]).toEqual([400, expect.stringContaining("context")]);
      }
    }
  });
});
