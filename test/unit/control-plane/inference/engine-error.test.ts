import { describe, expect, it } from "vitest";
import { engineError } from "../../../../control-plane/inference/engine-error.ts";

const told = (status: number, body: unknown) =>
  engineError(
    {
      kind: "engine-error",
      status,
      body: Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
      retryAfterSeconds: undefined,
      usage: undefined,
    },
    "chat",
    { name: "org/model", task: "embeddings" },
  );

describe("an engine's words about a caller's fault", () => {
  it.each([
    [{ error: { message: "too long", code: "context_length_exceeded", param: "messages" } }],
    [{ object: "error", message: "too long", code: "context_length_exceeded", param: "messages" }],
  ])("are kept from %j", (body) => {
    expect(told(400, body)).toMatchObject({ message: "too long", code: "context_length_exceeded", param: "messages" });
  });

  it.each([["<html>"], [""], ["null"], [{ error: 5 }], [[]]])("are made up when the body is %j", (body) => {
    const error = told(422, body);
    expect(error).toMatchObject({ kind: "invalid", code: "invalid_request" });
    expect(error.message.length).toBeGreaterThan(10);
  });
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
  expect(told(400, { error: { message: words, code: "voice_not_found", param: "voice" } })).toMatchObject({
    kind: "not_found",
    code: "voice_not_found",
    message: words,
  });
});
