import { describe, expect, it } from "vitest";
import { accountRefusal, engineError } from "../../../../control-plane/inference/engine-error.ts";

const told = (status: number, body: unknown, isExternalServer = false) =>
  engineError(
    {
      kind: "engine-error",
      status,
      body: Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
      retryAfterSeconds: undefined,
      usage: undefined,
    },
    "chat",
    { name: "org/model", task: "embeddings", isExternalServer },
  );

describe("an engine's words about a caller's fault", () => {
  it.each([
    [{ error: { message: "too long", code: "context_length_exceeded", param: "messages" } }],
    [{ object: "error", message: "too long", code: "context_length_exceeded", param: "messages" }],
  ])("are kept from %j", (body) => {
    expect(told(400, body)).toMatchObject({ message: "too long", code: "context_length_exceeded", param: "messages" });
  });

  it.each([
    [
      "llama.cpp's server",
      {
        error: {
          code: 400,
          message: "request (5031 tokens) exceeds the available context size (2048 tokens), try increasing it",
          type: "exceed_context_size_error",
        },
      },
    ],
    [
      "an older build of llama.cpp's server",
      { error: { message: "the request exceeds the available context size. try increasing the context size" } },
    ],
    [
      "vLLM",
      {
        error: {
          message: "This model's maximum context length is 512 tokens. However, you requested 700 tokens.",
          type: "BadRequestError",
          param: null,
          code: 400,
        },
      },
    ],
    [
      "SGLang",
      { object: "error", message: "The input (700 tokens) is longer than the model's context length (512 tokens)." },
    ],
  ])("have the code context_length_exceeded for a prompt beyond the context of %s", (_, body) => {
    expect(told(400, body)).toMatchObject({ kind: "bad_request", code: "context_length_exceeded" });
    expect(told(422, body).code).toBe("invalid_request");
  });

  it.each([["<html>"], [""], ["null"], [{ error: 5 }], [[]]])("are made up when the body is %j", (body) => {
    const error = told(422, body);
    expect(error).toMatchObject({ kind: "invalid", code: "invalid_request" });
    expect(error.message.length).toBeGreaterThan(10);
  });
});

describe("a prompt that does not fit", () => {
  it.each([
    // vLLM 0.32 and 0.18.
    "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens, which exceeds this limit even without any output tokens.",
    "Input length (3000) exceeds model's maximum context length (2048).",
    "max_tokens=100000 cannot be greater than max_model_len=2048. Please request fewer output tokens.",
  ])("has one code whatever the engine's words: %s", (message) => {
    const error = told(400, { error: { message, type: "BadRequestError", param: null, code: 400 } });
    expect(error).toMatchObject({ kind: "bad_request", code: "context_length_exceeded", param: "messages", message });
  });
});

it.each([
  '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
  'tool_choice="required" requires --tool-call-parser to be set',
  'tool_choice=function "get_weather" requires --tool-call-parser to be set',
])("tools of a model without a parser are unsupported, without the engine's arguments: %s", (message) => {
  const error = told(400, { error: { message, code: 400 } });
  expect(error).toMatchObject({ code: "tools_unsupported", param: "tools" });
  expect(error.message).not.toContain("--");
});

it("an engine that is full is our 429, one that fails our 502 or 504", () => {
  expect(told(429, {})).toMatchObject({ code: "engine_overloaded", retryAfterSeconds: 1 });
  expect(told(401, {}).code).toBe("upstream_error");
  expect(told(500, {}).code).toBe("upstream_error");
  expect(told(504, {}).code).toBe("upstream_timeout");
});

it("a model of another task is told by its name and task, and with no path that is the model server's own", () => {
  const words = "this model does not serve /v1/chat/completions; send the request to /v1/audio/voices";
  const error = told(400, { error: { message: words, code: "unsupported_task", param: "model" } });
  expect(error).toMatchObject({ code: "unsupported_task", param: "model" });
  expect(error.message).not.toContain("/v1/");
  expect(error.message).toMatch(/`org\/model`, .*`embeddings`.*`GET \/models\/org\/model`/);
});

it("a voice that the model does not have is unknown: 404 in the engine's words, which name those it has", () => {
  const words = "there is no voice nobody; this model has af_heart";
  // Older runtimes send 400.
  for (const status of [400, 404])
    expect(told(status, { error: { message: words, code: "voice_not_found", param: "voice" } })).toMatchObject({
      kind: "not_found",
      code: "voice_not_found",
      message: words,
    });
});

describe("a provider that refuses the operator's account", () => {
  const errors: readonly (readonly [number, object])[] = [
    [400, { type: "invalid_request_error", message: "Your credit balance is too low to access the Anthropic API." }],
    [400, { code: "billing_hard_limit_reached", type: "invalid_request_error", message: "Billing hard limit reached" }],
    [400, { code: 400, status: "INVALID_ARGUMENT", message: "API key not valid. Please pass a valid API key." }],
    [400, { code: "organization_restricted", message: "Organization has been restricted." }],
    [402, { message: "Insufficient Balance" }],
    [429, { code: "insufficient_quota", message: "You exceeded your current quota." }],
  ];
  it.each(errors)("is not the caller's fault: %i %j", (status, error) => {
    const refused = told(status, { error }, true);
    expect(refused.code).toBe("upstream_error");
    expect(refused.message).not.toContain((error as { message: string }).message);
  });

  it("is recognised by a status or code, or only by words that a customer may have chosen", () => {
    const kindOf = ([status, error]: (typeof errors)[number]) =>
      accountRefusal({ status, body: Buffer.from(JSON.stringify({ error })) });
    expect(errors.map(kindOf)).toEqual(["words", "code", "words", "code", "status", "code"]);
  });

  it("is not confused with a caller's own fault, nor with a server of the operator's", () => {
    const tooLong = { type: "invalid_request_error", message: "prompt is too long: 9 tokens > 8 maximum" };
    expect(told(400, { error: tooLong }, true)).toMatchObject({ kind: "bad_request", message: tooLong.message });
    expect(told(429, { error: { code: "rate_limit_exceeded", message: "Slow down" } }, true).code).toBe(
      "engine_overloaded",
    );
    expect(told(400, { error: { code: "invalid_api_key", message: "x" } }).kind).toBe("bad_request");
  });
});
