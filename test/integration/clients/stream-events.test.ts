// Each event of streamed responses and messages, and each whole one, validated by the models of the official Python clients.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { figures } from "../../fakes/agent-data-plane.ts";
import { type Edge, startEdge } from "../../fakes/edge.ts";
import { apiKey } from "../../fakes/ports.ts";
import { hasModule, runPython } from "../../fakes/python.ts";

const hasClients = (await Promise.all(["openai", "anthropic"].map(hasModule))).every(Boolean);
if (!hasClients)
  console.warn("\n*** NOT PROVEN: events of streams by the official models; Python's openai or anthropic is missing\n");

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const usage = {
  prompt_tokens: 6,
  completion_tokens: 3,
  total_tokens: 9,
  estimated_cost: 0.00000022,
  prompt_tokens_details: { cached_tokens: 2 },
  completion_tokens_details: { reasoning_tokens: 1 },
};
const head = { id: "c", created: 1, model: "org/model", object: "chat.completion.chunk" };
const frame = (fields: object) => `data: ${JSON.stringify({ ...head, ...fields })}\n\n`;
const chunk = (delta: object, finish: string | null = null, more: object = {}) =>
  frame({ choices: [{ index: 0, delta, finish_reason: finish, ...more }] });
const call = (index: number, name: string, args: string) =>
  chunk({ tool_calls: [{ index, id: `call_${index}`, type: "function", function: { name, arguments: args } }] });
const logprobs = {
  content: [
    { token: "Hi", bytes: [72, 105], logprob: -0.1, top_logprobs: [{ token: "Hi", bytes: null, logprob: -0.1 }] },
  ],
};

/** Frames of an engine, by what they contain. */
const engine: Readonly<Record<string, readonly string[]>> = {
  text: [
    chunk({ role: "assistant", content: "" }),
    chunk({ content: "Hi" }),
    chunk({ content: " you" }),
    chunk({}, "stop"),
  ],
  cut: [chunk({ content: "Hi" }), chunk({}, "length")],
  filtered: [chunk({ content: "Hi" }), chunk({}, "content_filter")],
  empty: [chunk({}, "stop")],
  refusal: [chunk({ refusal: "I cannot" }), chunk({ refusal: " do that." }), chunk({}, "stop")],
  logprobs: [chunk({ content: "Hi" }, null, { logprobs }), chunk({}, "stop")],
  reasoning: [
    chunk({ reasoning_content: "Well" }),
    chunk({ reasoning_content: "." }),
    chunk({ content: "Yes" }),
    chunk({}, "stop"),
  ],
  calls: [
    chunk({ reasoning_content: "Two." }),
    chunk({ content: "I look." }),
    call(0, "weather", '{"city":'),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '"Rome"}' } }] }),
    call(1, "patch", '{"input":"a"}'),
    chunk({}, "tool_calls"),
  ],
  error: [chunk({ content: "Hi" }), `data: ${JSON.stringify({ error: { message: "out of memory", code: "x" } })}\n\n`],
};
const script = (frames: readonly string[]) => {
  const isError = frames === engine["error"];
  edge.agent.script({
    kind: "stream",
    frames: isError ? frames : [...frames, frame({ choices: [], usage })],
    usage: figures,
  });
};

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const responses: Readonly<Record<string, object>> = {
  plain: { input: "Hi" },
  summary: { input: "Hi", reasoning: { effort: "low", summary: "auto" }, include: ["reasoning.encrypted_content"] },
  whole: {
    input: [{ role: "user", content: [{ type: "input_text", text: "Hi" }] }],
    instructions: "Be kind.",
    metadata: { a: "b" },
    max_output_tokens: 9,
    temperature: 0.5,
    top_p: 0.9,
    top_logprobs: 1,
    include: ["message.output_text.logprobs"],
    parallel_tool_calls: true,
    tool_choice: { type: "function", name: "weather" },
    tools: [
      { type: "function", name: "weather", parameters, strict: true },
      { type: "custom", name: "patch", description: "Patches" },
    ],
    text: { format: { type: "json_schema", name: "place", schema: parameters, strict: true } },
    safety_identifier: "ann",
    prompt_cache_key: "k",
    store: true,
  },
};
const messages: Readonly<Record<string, object>> = {
  plain: {},
  whole: {
    system: "Be kind.",
    thinking: { type: "enabled", budget_tokens: 1_024 },
    stop_sequences: ["x"],
    tools: [{ name: "weather", input_schema: parameters }],
  },
};

/** Fields that clients keep although no model declares them: those that the services send too, and ours. */
const undeclared = [
  "bytes",
  "cache_creation",
  "details",
  "estimated_cost",
  "inference_geo",
  "name",
  "service_tier",
  "speed",
  "status",
  "store",
];

/** Every event that can be sent, of messages first; two kinds of whole objects. */
const everything = [
  "content_block_delta",
  "content_block_start",
  "content_block_stop",
  "error",
  "message_delta",
  "message_start",
  "message_stop",
  "anthropic message",
  "completed",
  "content_part.added",
  "content_part.done",
  "created",
  "custom_tool_call_input.delta",
  "custom_tool_call_input.done",
  "failed",
  "function_call_arguments.delta",
  "function_call_arguments.done",
  "in_progress",
  "incomplete",
  "output_item.added",
  "output_item.done",
  "output_text.delta",
  "output_text.done",
  "reasoning_summary_part.added",
  "reasoning_summary_part.done",
  "reasoning_summary_text.delta",
  "reasoning_summary_text.done",
  "reasoning_text.delta",
  "reasoning_text.done",
  "refusal.delta",
  "refusal.done",
  "openai response",
];

async function post(path: string, body: object): Promise<string> {
  const headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
  const reply = await fetch(edge.url + path, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await reply.text();
  expect(reply.status, text).toBe(200);
  return text;
}

/** Data of each event; its name is the type in it. */
function eventsOf(stream: string): object[] {
  return stream
    .split("\n\n")
    .filter((one) => one.startsWith("event:"))
    .map((one) => {
      const [, name, json] = /^event: (\S+)\ndata: (.*)$/s.exec(one) ?? [];
      const data = JSON.parse(json ?? "") as { type: string };
      expect(data.type).toBe(name);
      return data;
    });
}

it.skipIf(!hasClients)(
  "sends only events and objects that the official clients' models accept strictly",
  { timeout: 120_000 },
  async () => {
    const lines: string[] = [];
    const add = (kind: string, data: object) => lines.push(JSON.stringify({ kind, data }));
    const message = { model: "org/model", max_tokens: 2_000, messages: [{ role: "user", content: "Hi" }] };
    for (const frames of Object.values(engine)) {
      for (const body of Object.values(responses)) {
        script(frames);
        const events = eventsOf(await post("/v1/responses", { model: "org/model", ...body, stream: true }));
        expect(events.map((event) => (event as { sequence_number: number }).sequence_number)).toEqual(
          events.map((_, i) => i),
        );
        for (const event of events) add("openai event", event);
        add("openai response", (events.at(-1) as { response: object }).response);
      }
      for (const body of Object.values(messages)) {
        script(frames);
        const events = eventsOf(await post("/v1/messages", { ...message, ...body, stream: true }));
        for (const event of events) if ((event as { type: string }).type !== "ping") add("anthropic event", event);
      }
    }
    const whole = (content: object) =>
      edge.agent.script({
        kind: "whole",
        body: JSON.stringify({
          ...head,
          object: "chat.completion",
          choices: [{ index: 0, message: { role: "assistant", ...content }, finish_reason: "stop" }],
          usage,
        }),
      });
    for (const content of [
      { content: "Hi" },
      { content: "Hi", reasoning_content: "Well" },
      { content: null, tool_calls: [{ id: "a", type: "function", function: { name: "weather", arguments: "{}" } }] },
    ]) {
      whole(content);
      add("openai response", JSON.parse(await post("/v1/responses", { model: "org/model", ...responses["whole"] })));
      whole(content);
      add("anthropic message", JSON.parse(await post("/v1/messages", { ...message, ...messages["whole"] })));
    }
    const folder = mkdtempSync(join(tmpdir(), "stoker-events-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, "events"), lines.join("\n"));
    const ran = await runPython([join(import.meta.dirname, "validate_events.py"), join(folder, "events")], {
      limitMs: 60_000,
    });
    expect(ran.code, ran.stderr).toBe(0);
    const { problems, unknown, seen } = JSON.parse(ran.stdout) as Record<string, string[]>;
    expect(problems).toEqual([]);
    const names = new Set(unknown?.map((path) => path.split(".").at(-1)));
    expect([...names].toSorted()).toEqual(undeclared);
    expect(seen?.map((one) => one.replace(/^(openai event response|anthropic event)[. ]/, ""))).toEqual(everything);
  },
);
