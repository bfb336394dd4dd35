import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { adminKey, apiKey } from "../fakes/ports.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge.close());

const paths = { text: "/v1/completions", chat: "/v1/compat/chat/completions" };

interface CompatError {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string | null;
  };
  readonly detail?: readonly { readonly loc: readonly string[]; readonly msg: string; readonly type: string }[];
}

async function refused(path: string, body: unknown): Promise<CompatError & { readonly status: number }> {
  const answer = await edge.post(path, body);
  return { status: answer.status, ...((await answer.json()) as CompatError) };
}

/** Field, value, the type of its detail, and where. */
const outOfBounds: readonly (readonly [string, unknown, string, (readonly string[])?])[] = [
  ["model", undefined, "missing"],
  ["model", 7, "string_type"],
  ["model", "", "string_too_short"],
  ["max_tokens", 0, "greater_than"],
  ["max_tokens", 1_000_001, "less_than_equal"],
  ["max_tokens", 1.5, "int_from_float"],
  ["max_tokens", "12", "int_type"],
  ["max_completion_tokens", 0, "greater_than"],
  ["temperature", -0.1, "greater_than_equal"],
  ["temperature", 2.1, "less_than_equal"],
  ["temperature", "1", "float_type"],
  ["top_p", 0, "greater_than"],
  ["top_p", 1.01, "less_than_equal"],
  ["min_p", 1.1, "less_than_equal"],
  ["min_p", -1, "greater_than_equal"],
  ["top_k", -1, "greater_than_equal"],
  ["n", 0, "greater_than_equal"],
  ["n", 5, "less_than_equal"],
  ["stream", "yes", "bool_type"],
  ["stop", 5, "string_type"],
  ["stop", Array.from({ length: 17 }, () => "x"), "too_long"],
  ["stop", ["a", 1], "string_type", ["stop", "1"]],
  ["presence_penalty", 2.5, "less_than_equal"],
  ["frequency_penalty", -2.5, "greater_than_equal"],
  ["repetition_penalty", 0, "greater_than_equal"],
  ["repetition_penalty", 5.1, "less_than_equal"],
  ["seed", 1.5, "int_from_float"],
  ["stop_token_ids", [1, "2"], "int_type", ["stop_token_ids", "1"]],
  ["user", 5, "string_type"],
  ["stream_options", { include_usage: "no" }, "bool_type", ["stream_options", "include_usage"]],
  ["stream_options", "yes", "dict_type"],
];

describe.each(Object.entries(paths))("%s completions", (kind, path) => {
  const good = kind === "text" ? text : chat;

  it.each(outOfBounds)("refuse %s = %j as %s", async (...row) => {
    const [field, value, type, at = [field]] = row as unknown as (typeof outOfBounds)[number];
    const { status, detail, error } = await refused(path, good({ [field]: value }));
    expect(status).toBe(422);
    expect(detail?.[0]).toMatchObject({ loc: ["body", ...at], type });
    expect(error.type).toBe("invalid_request_error");
    expect(error.message).toContain(at.join("."));
    expect(error.param).toBe(at.join("."));
  });

  it.each([
    ["18446744073709551616", "less_than"],
    ["18446744073709551617", "less_than"],
    ["-9223372036854775809", "greater_than_equal"],
  ])("refuse a seed of %s, with its bound to the last digit", async (seed, type) => {
    const { status, detail } = await refused(path, `${JSON.stringify(good()).slice(0, -1)},"seed":${seed}}`);
    expect(status).toBe(422);
    expect(detail?.[0]).toMatchObject({ loc: ["body", "seed"], type });
    expect(detail?.[0]?.msg).toMatch(/ (18446744073709551616|-9223372036854775808)$/);
  });

  it("name every field that is missing", async () => {
    const { detail } = await refused(path, {});
    expect(detail?.map((one) => one.loc)).toEqual([
      ["body", "model"],
      ["body", kind === "text" ? "prompt" : "messages"],
    ]);
  });

  it("refuse malformed JSON, whatever it holds, as 400 without quoting it", async () => {
    const answer = await edge.post(path, '{"model": "org/model", "prompt": "my secret diary" oops');
    expect(answer.status).toBe(400);
    const body = await answer.text();
    expect(JSON.parse(body).error.code).toBe("json_invalid");
    expect(body).not.toContain("diary");
  });

  it.each(["[]", "5", "null", '"text"'])("refuse a body that is %s", async (body) => {
    const { status, detail } = await refused(path, body);
    expect(status).toBe(422);
    expect(detail?.[0]?.loc).toEqual(["body"]);
  });

  it("refuse a body over 10 MiB, naming the limit", async () => {
    const answer = await edge.post(path, good({ user: "x".repeat(12 * 1024 * 1024) }));
    expect(answer.status).toBe(413);
    expect(((await answer.json()) as CompatError).error.message).toContain("10 MiB");
  });

  it("read a body without a content type as JSON", async () => {
    const answer = await fetch(edge.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}` },
      body: new Uint8Array(Buffer.from(JSON.stringify(good()))),
    });
    expect(answer.status).toBe(200);
  });

  it("tolerate unknown fields and explicit nulls", async () => {
    const nulls = {
      temperature: null,
      top_p: null,
      n: null,
      stop: null,
      seed: null,
      max_tokens: null,
      stream_options: null,
    };
    expect((await edge.post(path, good({ unknown_field: 4, ...nulls }))).status).toBe(200);
  });

  it("find a model of another case unknown, not invalid", async () => {
    for (const model of ["ORG/MODEL", "x".repeat(5000)]) {
      const { status, error } = await refused(path, good({ model }));
      expect(status).toBe(404);
      expect(error.message.length).toBeLessThan(400);
    }
  });
});

describe("best_of", () => {
  it("is 422 above n, because no engine here ranks candidates", async () => {
    const { status, detail, error } = await refused(paths.text, text({ n: 2, best_of: 4 }));
    expect([status, detail?.[0]?.loc]).toEqual([422, ["body", "best_of"]]);
    expect(error.message).toContain("use n");
  });

  it.each([null, 1, 2])("is accepted as %s for n = 2, where it changes nothing", async (best_of) => {
    expect((await edge.post(paths.text, text({ n: 2, best_of }))).status).toBe(200);
  });
});

describe("messages", () => {
  const cases: readonly (readonly [string, unknown, string, readonly string[]])[] = [
    ["no message", [], "too_short", ["messages"]],
    ["an unknown role", [{ role: "narrator", content: "x" }], "enum", ["messages", "0", "role"]],
    ["a role that is no text", [{ role: 5, content: "x" }], "string_type", ["messages", "0", "role"]],
    ["no role", [{ content: "x" }], "missing", ["messages", "0", "role"]],
    ["a user without content", [{ role: "user" }], "missing", ["messages", "0", "content"]],
    ["content of a number", [{ role: "user", content: 5 }], "string_type", ["messages", "0", "content"]],
    [
      "an unknown part",
      [{ role: "user", content: [{ type: "smell" }] }],
      "enum",
      ["messages", "0", "content", "0", "type"],
    ],
    [
      "a part without its text",
      [{ role: "user", content: [{ type: "text" }] }],
      "missing",
      ["messages", "0", "content", "0", "text"],
    ],
    [
      "an image of bad detail",
      [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:,", detail: "huge" } }] }],
      "enum",
      ["messages", "0", "content", "0", "image_url", "detail"],
    ],
    ...["http://169.254.169.254/latest/meta-data/", "https://example.com/a.png", "file:///etc/passwd"].map(
      (url) =>
        [
          `a picture at ${url}, which an engine would fetch,`,
          [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }],
          "string_pattern",
          ["messages", "0", "content", "0", "image_url", "url"],
        ] as const,
    ),
    [
      "a name for cached media",
      [
        {
          role: "user",
          content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA==" }, uuid: "theirs" }],
        },
      ],
      "enum",
      ["messages", "0", "content", "0", "uuid"],
    ],
    ["a tool answer to nothing", [{ role: "tool", content: "x" }], "missing", ["messages", "0", "tool_call_id"]],
  ];
  it.each(cases)("with %s are refused", async (_name, messages, type, loc) => {
    const { status, detail } = await refused(paths.chat, chat({ messages }));
    expect(status).toBe(422);
    expect(detail?.[0]).toMatchObject({ loc: ["body", ...loc], type });
  });

  it("of an unknown role are told the roles there are", async () => {
    const { error } = await refused(paths.chat, chat({ messages: [{ role: "function", content: "x" }] }));
    expect(error).toMatchObject({
      message: expect.stringMatching(/^messages\.0\.role: Input should be 'system', .*'user'.* or '/),
      param: "messages.0.role",
    });
  });

  it("of every allowed shape are accepted", async () => {
    const messages = [
      { role: "system", content: "Be kind.", name: "s" },
      { role: "developer", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "Hi" },
          { type: "image_url", image_url: { url: "data:," } },
        ],
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: "{}" } }],
      },
      { role: "assistant", tool_calls: [] },
      { role: "tool", tool_call_id: "c", content: "42" },
      { role: "assistant", content: "So", reasoning_content: "because" },
    ];
    expect((await edge.post(paths.chat, chat({ messages }))).status).toBe(200);
  });
});

describe("several parts of a request", () => {
  const locsOf = async (path: string, body: unknown, key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const answer = await edge.post(path, body, { headers });
    const { detail } = (await answer.json()) as CompatError;
    return [answer.status, detail?.map(({ loc }) => loc.join("."))];
  };

  it("has the faults of body and query in one reply", async () => {
    const path = "/v1/text-to-speech/anna?output_format=mp3&output_format=wav";
    expect(await locsOf(path, { text: 5, language_code: 5 })).toEqual([
      422,
      ["body.text", "body.language_code", "query.output_format"],
    ]);
  });

  it("has the faults of path and body in one reply", async () => {
    expect(await locsOf(`/v1/admin/nodes/${"n".repeat(300)}/cordon`, { note: 5 }, adminKey)).toEqual([
      422,
      ["path.id", "body.note"],
    ]);
  });
});

describe("a body as a whole", () => {
  it("that is no object is no field's fault", async () => {
    const { status, error } = await refused(paths.chat, []);
    expect([status, error.param, error.message]).toEqual([422, null, "body: Input should be an object"]);
  });

  it.each([paths.chat, "/v1/api-tokens"])("that is compressed is told so, by %s", async (path) => {
    const headers = {
      authorization: `Bearer ${apiKey}`,
      "content-type": "application/json",
      "content-encoding": "gzip",
    };
    const body = gzipSync(JSON.stringify(chat()));
    const answer = await fetch(edge.url + path, { method: "POST", headers, body });
    const said = await answer.text();
    expect([answer.status, said]).toEqual([400, expect.stringContaining("content_encoding_unsupported")]);
    expect(said).toMatch(/gzip.*Send the request body uncompressed/);
    const plain = { ...headers, "content-encoding": "identity" };
    const known = await fetch(edge.url + paths.chat, { method: "POST", headers: plain, body: JSON.stringify(chat()) });
    expect(known.status).toBe(200);
  });
});

describe("chat fields", () => {
  it.each([
    ["tool_choice", "maybe", ["tool_choice"]],
    ["tool_choice", { type: "function" }, ["tool_choice", "function"]],
    ["tools", [{ type: "function", function: {} }], ["tools", "0", "function", "name"]],
    ["response_format", { type: "yaml" }, ["response_format", "type"]],
    ["response_format", { type: "json_schema" }, ["response_format", "json_schema"]],
    ["reasoning_effort", "huge", ["reasoning_effort"]],
    ["top_logprobs", 21, ["top_logprobs"]],
    ["logprobs", 5, ["logprobs"]],
  ])("%s = %j is refused", async (field, value, loc) => {
    const { status, detail } = await refused(paths.chat, chat({ [field]: value }));
    expect(status).toBe(422);
    expect(detail?.[0]?.loc).toEqual(["body", ...loc]);
  });

  it("accepts only response_format text for a text completion", async () => {
    const json = await refused(paths.text, text({ response_format: { type: "json_object" } }));
    expect(json.detail?.[0]).toMatchObject({ loc: ["body", "response_format", "type"], type: "enum" });
    expect((await edge.post(paths.text, text({ response_format: { type: "text" } }))).status).toBe(200);
  });
});

describe("credentials", () => {
  const me = (headers: Record<string, string>) => fetch(`${edge.url}/v1/me`, { headers });

  it.each([
    ["a missing one", {}],
    ["an unknown one", { authorization: "Bearer stk_unknown" }],
    ["another scheme", { authorization: `Basic ${apiKey}` }],
    ["an empty one", { authorization: "Bearer " }],
    ["two that differ", { authorization: `Bearer ${apiKey}`, "x-api-key": "stk_other" }],
  ])("%s is refused with the same body", async (_name, headers) => {
    const answer = await me(headers);
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toBe("Bearer");
    const { request_id: _id, ...body } = (await answer.json()) as { request_id: string };
    expect(body).toMatchObject({ code: "invalid_api_key" });
  });

  it.each([
    ["authorization", `bearer ${apiKey}`],
    ["authorization", `BEARER  ${apiKey}`],
    ["xi-api-key", apiKey],
    ["x-api-key", apiKey],
  ])("%s: %s is accepted", async (name, value) => {
    expect((await me({ [name]: value })).status).toBe(200);
  });

  it("that must be looked up first is accepted or refused alike", async () => {
    edge.authenticator.isCold = true;
    expect((await me({ authorization: `Bearer ${apiKey}` })).status).toBe(200);
    expect((await me({ authorization: "Bearer stk_unknown" })).status).toBe(401);
    edge.authenticator.isCold = false;
  });

  it("are asked for before the body is judged", async () => {
    const answer = await fetch(edge.url + paths.chat, { method: "POST", body: "{" });
    expect(answer.status).toBe(401);
  });
});
