// Batches of messages and of responses through real processes, by the unmodified clients of both APIs.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI, { toFile } from "openai";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type FakeEngine, startFakeEngine } from "../../fakes/engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { query } from "./database.ts";

const model = "acme/chat";
let stack: Stack;
let engine: FakeEngine;
let anthropic: Anthropic;
let openai: OpenAI;

beforeAll(async () => {
  engine = await startFakeEngine({ models: [model] });
  stack = await startStack({ controlPlaneEnv: { STOKER_BATCH_CLOCKS: "0.1" } });
  const server = { name: model, url: engine.origin, max_batch_size: 16 };
  const { body } = await stack.call("POST", "/v1/admin/external", server);
  const pricing = { input: 1, cached_input: 1, output: 10 };
  await stack.call("PUT", `/v1/admin/models/${model}`, { deploy_id: body.deploy_id, description: "", pricing });
  await vi.waitFor(
    async () => expect((await stack.call("GET", `/deploy/${body.deploy_id}`)).body.status).toBe("deployed"),
    { timeout: 60_000, interval: 100 },
  );
  anthropic = new Anthropic({ apiKey: stack.apiKey, baseURL: `${stack.url}/anthropic`, maxRetries: 0 });
  openai = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1`, maxRetries: 0 });
});
afterAll(async () => {
  await stack?.stop();
  await engine?.close();
});

const patience = { timeout: 60_000, interval: 100 };
const params = { model, max_tokens: 5, messages: [{ role: "user" as const, content: "hi" }] };
const costOf = async (requestId: string) => {
  const text = `select input_tokens::int as input, output_tokens::int as output, charge::int as charge from usage where request_id = '${requestId}'`;
  return (await vi.waitFor(async () => {
    const rows = await query<{ input: number; output: number; charge: number }>(stack.databaseUrl, text);
    expect(rows).toHaveLength(1);
    return rows[0];
  }, patience)) as { input: number; output: number; charge: number };
};

it("runs messages in a batch, at the price of batches, and lists what became of each", {
  timeout: 120_000,
}, async () => {
  const batch = await anthropic.messages.batches.create({
    requests: [
      { custom_id: "one", params },
      { custom_id: "two", params: { ...params, system: "Be short.", metadata: { user_id: "ann" } } },
      { custom_id: "bad", params: { ...params, max_tokens: -1 } },
    ],
  });
  expect(batch).toMatchObject({ type: "message_batch", processing_status: "in_progress", results_url: null });
  expect(batch.request_counts).toMatchObject({ processing: 3 });
  const ended = await vi.waitFor(async () => {
    const found = await anthropic.messages.batches.retrieve(batch.id);
    expect(found.processing_status).toBe("ended");
    return found;
  }, patience);
  expect(ended.request_counts).toEqual({ processing: 0, succeeded: 2, errored: 1, canceled: 0, expired: 0 });
  const results = new Map<string, Anthropic.Messages.MessageBatchResult>();
  for await (const { custom_id, result } of await anthropic.messages.batches.results(batch.id))
    results.set(custom_id, result);
  expect([...results.keys()].toSorted()).toEqual(["bad", "one", "two"]);
  expect(results.get("one")).toMatchObject({
    type: "succeeded",
    message: { type: "message", role: "assistant", model, content: [{ type: "text" }], stop_reason: "max_tokens" },
  });
  expect(results.get("bad")).toMatchObject({
    type: "errored",
    error: { type: "error", error: { type: "invalid_request_error", message: expect.stringContaining("max_tokens") } },
  });
  const { input, output, charge } = await costOf(`${batch.id}_1`);
  expect([input > 0, output]).toEqual([true, 5]);
  // USD 1 and 10 per million tokens, less 20 %.
  expect(charge).toBe((input * 1_000 + output * 10_000) * 0.8);
  await costOf(`${batch.id}_2`);
  const users = await stack.call("GET", "/v1/usage/users");
  expect(users.body.users).toMatchObject([{ user: "ann", requests: 1 }]);
  const listed = await anthropic.messages.batches.list({ limit: 1 });
  expect(listed.data.map(({ id }) => id)).toEqual([batch.id]);
});

it("refuses a batch of messages whose requests cannot form one", async () => {
  const create = (requests: { custom_id: string; params: typeof params }[]) =>
    anthropic.messages.batches.create({ requests }).then(
      () => "created",
      (error) => [error.status, error.error.error.type, error.error.error.message],
    );
  const one = { custom_id: "a", params };
  expect(await create([one, one])).toEqual([
    400,
    "invalid_request_error",
    expect.stringContaining("requests[1]: Its `custom_id`"),
  ]);
  expect(await create([{ custom_id: "a", params: { ...params, model: "none" } }])).toEqual([
    400,
    "invalid_request_error",
    expect.stringContaining("Model not found"),
  ]);
  const files = await stack.call("GET", "/v1/files?purpose=batch");
  expect(files.body.data).toHaveLength(1);
});

it("cancels a batch of messages", async () => {
  engine.behave({ tokenMs: 200 });
  // At most 16 run at once, for a second each: the cancellation is noticed long before the last one starts.
  const requests = Array.from({ length: 400 }, (_, i) => ({ custom_id: `r${i}`, params }));
  const { id } = await anthropic.messages.batches.create({ requests });
  const cancelled = await anthropic.messages.batches.cancel(id);
  expect(cancelled).toMatchObject({ processing_status: "canceling", cancel_initiated_at: expect.any(String) });
  const ended = await vi.waitFor(async () => {
    const found = await anthropic.messages.batches.retrieve(id);
    expect(found.processing_status).toBe("ended");
    return found;
  }, patience);
  engine.behave({ tokenMs: 0 });
  const { succeeded, canceled } = ended.request_counts;
  expect([succeeded + canceled, canceled > 0]).toEqual([400, true]);
  const kinds: string[] = [];
  for await (const { result } of await anthropic.messages.batches.results(id)) kinds.push(result.type);
  expect(kinds.filter((kind) => kind === "canceled")).toHaveLength(canceled);
});

it("runs responses in a batch, at the price of batches", { timeout: 120_000 }, async () => {
  const line = (custom_id: string, body: object) =>
    JSON.stringify({ custom_id, method: "POST", url: "/v1/responses", body: { model, ...body } });
  const lines = [
    line("one", { input: "hi", max_output_tokens: 5 }),
    line("stored", { input: "hi", store: true }),
    line("unknown", { input: "hi", previous_response_id: "resp_none" }),
  ];
  const file = await openai.files.create({
    purpose: "batch",
    file: await toFile(Buffer.from(lines.join("\n")), "a.jsonl"),
  });
  const batch = await openai.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/responses",
    completion_window: "24h",
  });
  const ended = await vi.waitFor(async () => {
    const found = await openai.batches.retrieve(batch.id);
    expect(found.status).toBe("completed");
    return found;
  }, patience);
  expect(ended.request_counts).toEqual({ total: 3, completed: 1, failed: 2 });
  const read = async (id: string | undefined) =>
    (await (await openai.files.content(id ?? "")).text())
      .trim()
      .split("\n")
      .map((text) => JSON.parse(text));
  const [one] = await read(ended.output_file_id);
  expect(one).toMatchObject({
    custom_id: "one",
    response: {
      status_code: 200,
      body: { object: "response", status: "incomplete", model, output: [{ type: "message" }] },
    },
  });
  const failed = await read(ended.error_file_id);
  expect(failed.map(({ custom_id, response }) => [custom_id, response.status_code, response.body.error.code])).toEqual([
    ["stored", 400, "unsupported_parameter"],
    ["unknown", 400, "previous_response_not_found"],
  ]);
  const { input, output, charge } = await costOf(`${batch.id}_1`);
  expect(charge).toBe((input * 1_000 + output * 10_000) * 0.8);
});

it("pages back and forth, and deletes what has ended with its results", async () => {
  const listed = await anthropic.messages.batches.list({ limit: 100 });
  const [newest, ...older] = listed.data;
  expect(older.length).toBeGreaterThan(0);
  const last = older.at(-1)?.id as string;
  const back = await anthropic.messages.batches.list({ limit: 1, before_id: last });
  expect(back.data.map(({ id }) => id)).toEqual([listed.data.at(-2)?.id]);
  expect(await anthropic.messages.batches.list({ before_id: newest?.id as string })).toMatchObject({ data: [] });
  const files = async (purpose: string) =>
    (await stack.call("GET", `/v1/files?purpose=${purpose}`)).body.data.length as number;
  const [inputs, outputs] = [await files("batch"), await files("batch_output")];
  expect(await anthropic.messages.batches.delete(last)).toEqual({ id: last, type: "message_batch_deleted" });
  await expect(anthropic.messages.batches.retrieve(last)).rejects.toMatchObject({ status: 404 });
  await expect(anthropic.messages.batches.delete(last)).rejects.toMatchObject({ status: 404 });
  expect(await files("batch")).toBe(inputs - 1);
  expect(await files("batch_output")).toBeLessThan(outputs);
});
