import OpenAI, { AuthenticationError, BadRequestError, NotFoundError } from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { figures } from "../fakes/agent-data-plane.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey } from "../fakes/ports.ts";

let edge: Edge;
let client: OpenAI;
beforeAll(async () => {
  edge = await startEdge();
});
beforeEach(() => {
  client = new OpenAI({ apiKey, baseURL: `${edge.url}/v1/openai`, maxRetries: 0 });
});
afterAll(() => edge.close());

const usage = { prompt_tokens: 6, completion_tokens: 3, total_tokens: 9, estimated_cost: 0.00000022 };
const chunk = (delta: object, finish: string | null, extra: object = {}) =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "org/model", choices: [{ index: 0, delta, finish_reason: finish }], ...extra })}\n\n`;

describe("the official client", () => {
  it("chats", async () => {
    edge.agent.script({ kind: "whole" });
    const { data, response } = await client.chat.completions
      .create({ model: "org/model", messages: [{ role: "user", content: "Hi" }] })
      .withResponse();
    expect(data.choices[0]?.message.content).toBe("Hello!");
    expect((data as { _request_id?: string })._request_id).toBe(response.headers.get("x-request-id"));
  });

  it("chats in a stream", async () => {
    edge.agent.script({
      kind: "stream",
      frames: [
        chunk({ role: "assistant", content: "Hel" }, null),
        chunk({ content: "lo" }, null),
        chunk({}, "stop", { usage }),
      ],
      usage: figures,
    });
    const stream = await client.chat.completions.create({
      model: "org/model",
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
    });
    let said = "";
    let last: unknown;
    for await (const one of stream) {
      said += one.choices[0]?.delta.content ?? "";
      last = one.usage ?? last;
    }
    expect(said).toBe("Hello");
    expect(last).toEqual(usage);
  });

  it("completes a text, streamed and not", async () => {
    const body = JSON.stringify({
      id: "cmpl-1",
      object: "text_completion",
      created: 1,
      model: "org/model",
      choices: [{ index: 0, text: " Paris.", logprobs: null, finish_reason: "stop" }],
      usage,
    });
    edge.agent.script({ kind: "whole", body });
    const whole = await client.completions.create({ model: "org/model", prompt: "The capital of France is" });
    expect(whole.choices[0]?.text).toBe(" Paris.");
    edge.agent.script({ kind: "stream", frames: [`data: ${body}\n\n`] });
    let said = "";
    for await (const one of await client.completions.create({ model: "org/model", prompt: "x", stream: true })) {
      said += one.choices[0]?.text ?? "";
    }
    expect(said).toBe(" Paris.");
  });

  it("lists models", async () => {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    expect(names).toEqual(["org/model"]);
  });

  it("understands refusals", async () => {
    const ask = (model: string, from = client) =>
      from.chat.completions.create({ model, messages: [{ role: "user", content: "Hi" }] });
    await expect(ask("nobody/knows")).rejects.toThrow(NotFoundError);
    await expect(ask("nobody/knows")).rejects.toMatchObject({ code: "model_not_found", param: "model" });
    const stranger = new OpenAI({ apiKey: "stk_unknown", baseURL: `${edge.url}/v1/compat`, maxRetries: 0 });
    await expect(ask("org/model", stranger)).rejects.toThrow(AuthenticationError);
    const body = JSON.stringify({
      error: { message: "too long", type: "invalid_request_error", code: "context_length_exceeded" },
    });
    edge.agent.script({ kind: "error", status: 400, body });
    await expect(ask("org/model")).rejects.toThrow(BadRequestError);
  });

  it("hears of a stream that broke", async () => {
    edge.agent.script({ kind: "break", afterFrames: 1 });
    const stream = await client.chat.completions.create({
      model: "org/model",
      messages: [{ role: "user", content: "Hi" }],
      stream: true,
    });
    await expect(
      (async () => {
        for await (const _ of stream);
      })(),
    ).rejects.toThrow(/stopped during the response/);
  });
});
