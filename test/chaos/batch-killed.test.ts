// A batch whose control plane is killed in the middle: every line has one result, and none is billed twice; batches as the official client runs them; and what they leave free for others.
import OpenAI, { toFile } from "openai";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";

const lines = 2_000;
const longLines = 400;
const tokens = 8;
const patient = { timeout: 90_000, interval: 100 };
/** USD 20 per million tokens, 20 % less in a batch: 16,000 nano-USD a token. */
const lineCost = tokens * 16_000;

/** Of eight places. */
const narrow = "fake/narrow";

let world: ExternalStack;
beforeAll(async () => {
  world = await startExternalStack({
    isDatabaseOnDisk: true,
    controlPlaneEnv: { STOKER_HOST_CLOCKS: "0.2", STOKER_SLICE_CLOCKS: "0.2", STOKER_BATCH_CLOCKS: "0.1" },
    engine: { tokens, tokenMs: 2, models: ["fake/model", narrow] },
  });
});
afterAll(() => world?.stop());

const auth = () => ({ authorization: `Bearer ${world.stack.apiKey}` });

async function upload(content: string): Promise<string> {
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", new Blob([content]), "requests.jsonl");
  const answer = await fetch(`${world.stack.url}/v1/files`, { method: "POST", headers: auth(), body: form });
  expect(answer.status).toBe(200);
  return ((await answer.json()) as { id: string }).id;
}

it(`gives each of ${lines} lines one result and bills it once after a kill -9 in the middle`, async () => {
  const { stack, model } = world;
  const content = Array.from({ length: lines }, (_, n) =>
    JSON.stringify({
      custom_id: `r${n}`,
      method: "POST",
      url: "/v1/completions",
      body: { model, prompt: `hello ${n}`, max_tokens: tokens },
    }),
  ).join("\n");
  const input = await upload(content);
  const made = await stack.call("POST", "/v1/batches", {
    input_file_id: input,
    endpoint: "/v1/completions",
    completion_window: "24h",
  });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  const { id } = made.body;
  const state = async () => (await stack.call("GET", `/v1/batches/${id}`)).body;

  await vi.waitFor(async () => expect((await state()).request_counts.completed).toBeGreaterThan(lines / 10), patient);
  await stack.controlPlane.kill9();
  const [before] = await query<{ completed: number }>(
    stack.databaseUrl,
    "select completed from batch where batch_id = $1",
    [id],
  );
  if ((before?.completed ?? lines) >= lines)
    console.warn("NOT PROVEN in this run: the batch was done before its control plane died.");
  stack.controlPlane.start();
  await vi.waitFor(async () => expect((await state()).status).toBe("completed"), patient);

  const batch = await state();
  expect(batch).toMatchObject({
    request_counts: { total: lines, completed: lines, failed: 0 },
    error_file_id: null,
    usage: { output_tokens: lines * tokens },
  });
  const output = await fetch(`${stack.url}/v1/files/${batch.output_file_id}/content`, { headers: auth() });
  const results = (await output.text())
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as { custom_id: string; response: { status_code: number } });
  expect(results).toHaveLength(lines);
  expect(new Set(results.map((one) => one.custom_id)).size).toBe(lines);
  expect(results.filter((one) => one.response.status_code !== 200)).toEqual([]);

  // Records of what was cut come when the agent has its session again.
  await vi.waitFor(async () => {
    const [billed] = await query<{ requests: number; charge: number }>(
      stack.databaseUrl,
      `select count(distinct request_id)::int as requests, coalesce(sum(charge), 0)::float8 as charge
       from usage where request_id like $1 and not voided`,
      [`${id}\\_%`],
    );
    expect(billed).toEqual({ requests: lines, charge: lines * lineCost });
  }, patient);
  expect(await ledgerFacts(stack.databaseUrl)).toMatchObject({ sum: 0, overspent: 0, capturesPerRequest: 1 });
  const left = await query(stack.databaseUrl, "select line from batch_result where batch_id = $1", [id]);
  expect(left).toEqual([]);
});

it("lets the official client run a batch, cancel one, and read why a file is refused", async () => {
  const { stack, model, engine } = world;
  const client = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1/openai`, maxRetries: 2 });
  const request = (n: number, change: object = {}) =>
    JSON.stringify({
      custom_id: `c${n}`,
      method: "POST",
      url: "/v1/chat/completions",
      body: { model, messages: [{ role: "user", content: `hello ${n}` }], max_tokens: tokens, ...change },
    });
  const run = async (lines: readonly string[]) => {
    const file = await client.files.create({
      purpose: "batch",
      file: await toFile(Buffer.from(lines.join("\n")), "requests.jsonl"),
    });
    return client.batches.create({
      input_file_id: file.id,
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
      metadata: { of: "tests" },
    });
  };
  const until = (id: string, status: string) =>
    vi.waitFor(async () => {
      const batch = await client.batches.retrieve(id);
      expect(batch.status).toBe(status);
      return batch;
    }, patient);
  const linesOf = async (id: string | undefined) =>
    (await (await client.files.content(id ?? "")).text())
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));

  const { id } = await run([request(1), "", request(2, { temperature: 9 }), request(3)]);
  const done = await until(id, "completed");
  expect(done).toMatchObject({ request_counts: { total: 3, completed: 2, failed: 1 }, metadata: { of: "tests" } });
  const answers = await linesOf(done.output_file_id);
  expect(answers.map((one) => one.custom_id)).toEqual(["c1", "c3"]);
  expect(answers[0].response.body.choices[0].message.role).toBe("assistant");
  expect(await linesOf(done.error_file_id)).toMatchObject([
    { custom_id: "c2", response: { status_code: 422, body: { error: { param: "temperature" } } } },
  ]);
  expect((await client.batches.list()).data.map((one) => one.id)).toContain(id);

  const refused = await until(
    (await run([request(1), "{", request(1), request(4, { model: "another/model" })])).id,
    "failed",
  );
  expect(refused.errors?.data?.map(({ code, line }) => [code, line])).toEqual([
    ["invalid_json_line", 2],
    ["duplicate_custom_id", 3],
    ["mismatched_model", 4],
  ]);
  const unknown = await until((await run([request(1, { model: "no/model" })])).id, "failed");
  expect(unknown.errors?.data).toMatchObject([{ code: "model_not_found" }]);

  // Of many slow lines some have ended and most have not begun.
  engine.behave({ tokenMs: 30 });
  const { id: long } = await run(Array.from({ length: longLines }, (_, n) => request(n)));
  await vi.waitFor(
    async () => expect((await client.batches.retrieve(long)).request_counts?.completed).toBeGreaterThan(0),
    patient,
  );
  expect((await client.batches.cancel(long)).status).toBe("cancelling");
  const cancelled = await until(long, "cancelled");
  const kept = await linesOf(cancelled.output_file_id);
  const others = await linesOf(cancelled.error_file_id);
  expect(kept.length + others.length).toBe(longLines);
  expect(others.length).toBeGreaterThan(0);
  expect(others.every((one) => one.response === null && one.error.code === "batch_cancelled")).toBe(true);
  engine.behave({ tokenMs: 2 });
});

it("leaves a quarter of a model's slots to interactive requests, which are served at once", async () => {
  const { stack, engine } = world;
  const made = await stack.call("POST", "/v1/admin/external", { name: narrow, url: engine.origin, max_batch_size: 8 });
  expect(made.status, JSON.stringify(made.body)).toBe(200);
  const ask = async () =>
    (await stack.call("POST", "/v1/completions", { model: narrow, prompt: "hello", max_tokens: 1 })).status;
  await vi.waitFor(async () => expect(await ask()).toBe(200), patient);
  await vi.waitFor(() => expect(engine.running).toBe(0), patient);

  // Lines that end only with the engine: those that may begin do, and stay.
  engine.behave({ firstByteMs: 600_000 });
  const lines = Array.from({ length: 40 }, (_, n) =>
    JSON.stringify({
      custom_id: `n${n}`,
      method: "POST",
      url: "/v1/completions",
      body: { model: narrow, prompt: `hello ${n}`, max_tokens: 1 },
    }),
  );
  const batch = {
    input_file_id: await upload(lines.join("\n")),
    endpoint: "/v1/completions",
    completion_window: "24h",
  };
  const begun = await stack.call("POST", "/v1/batches", batch);
  expect(begun.status, JSON.stringify(begun.body)).toBe(200);
  await vi.waitFor(() => expect(engine.running).toBe(6), patient);

  engine.behave({ firstByteMs: 0 });
  for (let round = 0; round < 5; round++) expect(await Promise.all([ask(), ask()])).toEqual([200, 200]);
  // The places that were free again after each round stayed theirs.
  expect(engine.running).toBe(6);
}, 180_000);
