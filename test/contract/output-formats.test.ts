// Forms that a request holds its output to, as each engine gets them: never dropped.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Route } from "../../control-plane/fleet/routes.ts";
import type { FormatSkill } from "../../proto/api-formats.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { apiKey } from "../fakes/ports.ts";
import { startTaskEdge, type TaskEdge } from "../fakes/task-edge.ts";

let tasks: TaskEdge;
beforeAll(async () => {
  tasks = await startTaskEdge();
});
afterAll(() => tasks.close());

const schema = { type: "object", properties: { a: { type: "integer" } } };
const wrapped = { type: "json_schema", json_schema: { name: "response", schema } };

/** Sends a request to a model of `engine` whose instances have `skills`; returns its status, and the error or the engine's body. */
async function ask(
  engine: "stoker" | "external",
  skills: readonly FormatSkill[],
  body: object,
  path = "/v1/chat/completions",
  others: readonly (readonly FormatSkill[])[] = [],
) {
  const isChat = path.endsWith("chat/completions");
  tasks.offer({ engine });
  const route = tasks.edge.routes.routes.at(-1) as Route;
  // The other instances are away: a request that goes there fails.
  const elsewhere = others.map((formats, i): Route => {
    return { ...route, instanceId: `other-${i}` as InstanceId, formats: new Set(formats) };
  });
  tasks.edge.routes.routes = [...elsewhere, { ...route, formats: new Set(skills) }];
  const said = isChat ? { message: { role: "assistant", content: "ok" } } : { text: "ok" };
  tasks.json({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "as-served",
    choices: [{ index: 0, ...said, finish_reason: "stop" }],
    usage: { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 },
  });
  const before = tasks.engine.requests.length;
  const prompt = isChat ? { messages: [{ role: "user", content: "Hi" }] } : { prompt: "Hi" };
  const reply = await fetch(tasks.edge.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "org/model", max_tokens: 5, ...prompt, ...body }),
  });
  const { error } = (await reply.json()) as { readonly error?: { readonly code?: string; readonly param?: string } };
  const wasSent = tasks.engine.requests.length > before;
  expect(wasSent).toBe(reply.status === 200);
  return { status: reply.status, error, sent: wasSent ? tasks.askedJson() : undefined };
}

const structured = ["structured_outputs"] as const;

describe("a form of the output", () => {
  it.each<[string, "stoker" | "external", readonly FormatSkill[], object, object]>([
    ["of guided_json", "external", structured, { guided_json: schema }, { response_format: wrapped }],
    ["of guided_json as text", "external", [], { guided_json: JSON.stringify(schema) }, { response_format: wrapped }],
    ["of a pattern", "external", structured, { guided_regex: "a+" }, { structured_outputs: { regex: "a+" } }],
    [
      "of response_format",
      "external",
      structured,
      { response_format: { type: "regex", regex: "a+" } },
      { structured_outputs: { regex: "a+" } },
    ],
    [
      "of a choice",
      "external",
      structured,
      { structured_outputs: { choice: ["a", "b"] } },
      { structured_outputs: { choice: ["a", "b"] } },
    ],
    [
      "of a grammar",
      "external",
      structured,
      { guided_grammar: "root ::= x" },
      { structured_outputs: { grammar: "root ::= x" } },
    ],
    [
      "of a choice",
      "stoker",
      [],
      { guided_choice: ["a.", "b"] },
      { response_format: { type: "regex", regex: "a\\.|b" } },
    ],
    [
      "of any object",
      "stoker",
      [],
      { structured_outputs: { json_object: true } },
      { response_format: { type: "json_object" } },
    ],
  ])("%s reaches %s with %j in its words", async (_, engine, skills, body, sent) => {
    const reply = await ask(engine, skills, body);
    expect(reply.status).toBe(200);
    const { response_format, structured_outputs } = reply.sent;
    expect(JSON.parse(JSON.stringify({ response_format, structured_outputs }))).toEqual(sent);
    expect(Object.keys(reply.sent).filter((key) => key.startsWith("guided_"))).toEqual([]);
  });

  it.each<["stoker" | "external", readonly FormatSkill[], object, string]>([
    ["stoker", [], { guided_grammar: "root ::= x" }, "guided_grammar"],
    ["external", [], { guided_regex: "a" }, "guided_regex"],
    ["external", [], { structured_outputs: { choice: ["a"] } }, "structured_outputs.choice"],
    ["external", [], { response_format: { type: "regex", regex: "a" } }, "response_format"],
    ["external", structured, { structured_outputs: { structural_tag: "{}" } }, "structured_outputs.structural_tag"],
    ["external", structured, { guided_decoding_backend: "outlines" }, "guided_decoding_backend"],
    ["external", structured, { guided_constructor: { type: "json", json: {} } }, "guided_constructor"],
    [
      "external",
      structured,
      JSON.parse('{"structured_outputs":{"__proto__":{"type":"regex"}}}'),
      "structured_outputs.__proto__",
    ],
    ["external", structured, { guided_regex: "a", guided_choice: ["a"] }, "guided_choice"],
    ["external", structured, { guided_regex: "a", response_format: { type: "json_object" } }, "response_format"],
    ["external", ["llama_sampling"], { stop_token_ids: [2] }, "stop_token_ids"],
  ])("that %s with %j cannot honour is 400 with the field: %j", async (engine, skills, body, param) => {
    expect(await ask(engine, skills, body)).toMatchObject({ status: 400, error: { code: "unsupported_value", param } });
  });

  it.each([
    [{ guided_regex: 5 }, "guided_regex"],
    [{ guided_choice: [] }, "guided_choice"],
    [{ guided_json: "no JSON" }, "guided_json"],
    [{ structured_outputs: ["a"] }, "structured_outputs"],
  ])("that is malformed is 422 with the field: %j", async (body, param) => {
    expect(await ask("external", structured, body)).toMatchObject({ status: 422, error: { param } });
  });

  it("that expands too far is refused with the field that holds it", async () => {
    const grammar = await ask("external", structured, { guided_grammar: `root ::= "${"x".repeat(60_000)}"` });
    expect(grammar).toMatchObject({ status: 400, error: { code: "format_too_large", param: "guided_grammar" } });
    const pattern = await ask("external", structured, { structured_outputs: { regex: "((a{200}){200}){200}" } });
    expect(pattern).toMatchObject({ status: 400, error: { param: "structured_outputs.regex" } });
  });

  it("of a plain completion reaches an engine that honours it there, and is refused by others", async () => {
    const body = { structured_outputs: { regex: "a+" } };
    const kept = await ask("external", structured, body, "/v1/completions");
    expect(kept).toMatchObject({ status: 200, sent: { structured_outputs: { regex: "a+" } } });
    const own = await ask("stoker", [], body, "/v1/completions");
    expect(own).toMatchObject({ status: 200, sent: { response_format: { type: "regex", regex: "a+" } } });
    expect(await ask("external", [], body, "/v1/completions")).toMatchObject({
      status: 400,
      error: { param: "structured_outputs.regex" },
    });
  });

  it("reaches the instances that honour it, also beside others that do not", async () => {
    const body = { structured_outputs: { regex: "a+" } };
    const { status, sent } = await ask("external", structured, body, undefined, [[], []]);
    expect(status).toBe(200);
    expect(sent).toMatchObject(body);
  });

  it("does not change what has none: null and plain text", async () => {
    const { status, sent } = await ask("external", [], { guided_json: null, structured_outputs: null });
    expect(status).toBe(200);
    expect(sent.response_format).toBeUndefined();
    expect(await ask("external", [], { response_format: { type: "text" } })).toMatchObject({ status: 200 });
  });
});

describe("running usage", () => {
  it.each([
    [["continuous_usage"], true],
    [[], undefined],
  ] as const)("is asked of engines with %j, so that a hang-up is billed by their count", async (skills, isRunning) => {
    await ask("external", skills, { stream: true }).catch(() => undefined);
    expect(tasks.askedJson().stream_options.continuous_usage_stats).toBe(isRunning);
  });
});

describe("fields of sampling", () => {
  it("have the names of llama.cpp's server where all instances are that", async () => {
    const { sent } = await ask("external", ["llama_sampling"], { repetition_penalty: 1.2, stop_token_ids: [] });
    expect(sent).toMatchObject({ repeat_penalty: 1.2, repeat_last_n: 4096 });
    expect(sent).not.toHaveProperty("repetition_penalty");
  });

  it("keep their names for other engines", async () => {
    const { sent } = await ask("external", [], { repetition_penalty: 1.2, stop_token_ids: [2] });
    expect(sent).toMatchObject({ repetition_penalty: 1.2, stop_token_ids: [2] });
  });
});
