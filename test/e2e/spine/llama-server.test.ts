// llama.cpp's own server as an engine: deployed by the product's API, started by the agent as a process, with real weights.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { planInstance } from "../../../agent/engines/plan-instance.ts";
import { type ArgRule, heeded } from "../../../proto/engine-args.ts";
import { instanceSpec } from "../../fakes/instance-spec.ts";
import { hasLlamaServer, llamaServer } from "../../fakes/llama-server.ts";
import { isNightly, promisedMs } from "../../fakes/nightly.ts";
import { askEngine, instancePids, isAlive, type Stack, startStack } from "../../fakes/processes.ts";
import { type UsageRow, usageOf } from "./database.ts";
import { demoModel, deploySmolLM, hasRealModel } from "./model.ts";

const run = promisify(execFile);

/** Arguments of the agent's plan with these of a customer. */
function planned(extraArgs: string[]): readonly string[] {
  const outcome = planInstance(instanceSpec({ engine: "llamacpp", extraArgs }), "/model.gguf", {
    driver: "process",
    runtimeImage: "",
    allowedImages: [],
    filesDir: "/files",
    logLevel: "info",
    enginePrograms: { llamacpp: { path: llamaServer as string, version: undefined } },
  });
  if (!outcome.ok) throw new Error(outcome.message);
  return outcome.plan.program?.argv.slice(1) ?? [];
}

const promise = "llama.cpp's server as an engine";
const slots = 2;
const slotContext = 512;

describe.skipIf(!hasLlamaServer(promise) || !hasRealModel(promise))("llama.cpp's server as an engine", () => {
  let stack: Stack;
  let client: OpenAI;
  let deployId: string;

  beforeAll(async () => {
    stack = await startStack({ agentEnv: { STOKER_LLAMACPP_BIN: llamaServer as string } });
    deployId = await deploySmolLM(stack, slots, {
      engine: "llamacpp",
      standard_args: { max_context_size: slotContext },
    });
    client = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1`, maxRetries: 0 });
  });
  afterAll(() => stack?.stop());

  const post = (path: string, body: object, signal?: AbortSignal) =>
    fetch(`${stack.url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: demoModel, ...body }),
      ...(signal ? { signal } : {}),
    });
  const complete = (body: object, signal?: AbortSignal) => post("/v1/completions", body, signal);
  /** The one settled row of a response. */
  const settled = (response: Response): Promise<UsageRow> =>
    vi.waitFor(
      async () => {
        const rows = await usageOf(stack.databaseUrl, response.headers.get("x-stoker-request-id") ?? "");
        expect(rows).toHaveLength(1);
        return rows[0] as UsageRow;
      },
      { timeout: 30_000, interval: 100 },
    );
  const metric = async (name: string): Promise<number> => {
    const page = await (await askEngine(stack.agentFolder(1), "/metrics")).text();
    return Number(new RegExp(`^llamacpp:${name} (\\S+)$`, "m").exec(page)?.[1]);
  };
  const question = { role: "user" as const, content: "Count from one to five." };

  it("runs in slots of the deployment's context and reports its length", async () => {
    const { data } = (await (await askEngine(stack.agentFolder(1), "/v1/models")).json()) as {
      data: { id: string; meta: { n_ctx: number } }[];
    };
    expect(data).toMatchObject([{ id: demoModel, meta: { n_ctx: slotContext } }]);
    const reported = async () => (await stack.call("GET", `/v1/models/${demoModel}`)).body;
    await vi.waitFor(async () => expect(JSON.stringify(await reported())).toContain(String(slotContext)));
  });

  it("serves a chat whole and streamed with one text, and bills what the server counted", async () => {
    const before = [await metric("prompt_tokens_total"), await metric("tokens_predicted_total")] as const;
    const body = { messages: [question], max_tokens: 8, temperature: 0 };
    const whole = await post("/v1/chat/completions", body);
    const { choices, usage } = (await whole.json()) as OpenAI.ChatCompletion;
    expect(await settled(whole)).toMatchObject({
      source: "engine",
      input_tokens: usage?.prompt_tokens,
      output_tokens: usage?.completion_tokens,
    });
    const { data: stream, response } = await client.chat.completions
      .create({ model: demoModel, ...body, stream: true, stream_options: { include_usage: true } })
      .withResponse();
    let text = "";
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
    expect(text).toBe(choices[0]?.message.content);
    expect(await settled(response)).toMatchObject({
      source: "engine",
      input_tokens: usage?.prompt_tokens,
      output_tokens: usage?.completion_tokens,
    });
    // No prompt cache between requests: every prompt is evaluated in full.
    const after = [await metric("prompt_tokens_total"), await metric("tokens_predicted_total")] as const;
    expect(after[0] - before[0]).toBe(2 * (usage?.prompt_tokens ?? 0));
    expect(after[1] - before[1]).toBe(2 * (usage?.completion_tokens ?? 0));
  });

  // `e2e/runtime/llama-server` compares these formats in full, also at night.
  it.runIf(isNightly)("serves Responses and Messages", async () => {
    const chat = await client.chat.completions.create({
      model: demoModel,
      messages: [question],
      max_tokens: 8,
      temperature: 0,
    });
    const text = chat.choices[0]?.message.content;
    const response = await client.responses.create({
      model: demoModel,
      input: question.content,
      max_output_tokens: 8,
      temperature: 0,
    });
    expect(response.output_text).toBe(text);
    const message = await post("/v1/messages", { messages: [question], max_tokens: 8, temperature: 0 });
    expect(await message.json()).toMatchObject({ content: [{ type: "text", text }] });
  });

  it("refuses a prompt beyond the context of a slot with context_length_exceeded", async () => {
    const response = await complete({ prompt: "word ".repeat(slotContext), max_tokens: 4 });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "context_length_exceeded" } });
  });

  it("refuses several choices, of which the server counts one only", async () => {
    const response = await complete({ prompt: "Count:", max_tokens: 4, n: 2 });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "unsupported_value", message: /^n must be 1/ } });
  });

  it.runIf(isNightly)("applies repetition_penalty to the whole reply, which it ignores under that name", async () => {
    const said = async (penalty: number) => {
      // Plain enough that every processor's rounding repeats it.
      const body = {
        prompt: "1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2,",
        max_tokens: 24,
        temperature: 0,
        repetition_penalty: penalty,
      };
      const response = await complete(body);
      expect(response.status, await response.clone().text()).toBe(200);
      const { choices } = (await response.json()) as { choices: { text: string }[] };
      return choices[0]?.text;
    };
    expect(await said(1)).toMatch(/1, 2, 1, 2/);
    expect(await said(2)).not.toMatch(/1, 2, 1, 2/);
  });

  it("refuses stop_token_ids, which it ignores", async () => {
    const response = await complete({ prompt: "Count:", max_tokens: 4, stop_token_ids: [2] });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "unsupported_value", param: "stop_token_ids" } });
    expect((await complete({ prompt: "Count:", max_tokens: 4, stop_token_ids: [] })).status).toBe(200);
  });

  it("accepts every allowed argument with every value of it", async () => {
    const valuesOf = (rule: ArgRule): readonly (string | undefined)[] => {
      if (rule.kind === "flag") return [undefined];
      if (rule.kind === "one-of") return rule.values;
      return rule.kind === "integer" || rule.kind === "number" ? [String(rule.min), String(rule.max)] : [];
    };
    const { "max-model-len": _length, ...parsed } = heeded.llamacpp;
    const values = Object.entries(parsed).map(([name, rule]) =>
      valuesOf(rule).map((value) => (value === undefined ? `--${name}` : `--${name}=${value}`)),
    );
    // All arguments in one start, each with its next value: a start takes a quarter of a second.
    const startCount = Math.max(...values.map(({ length }) => length));
    for (let i = 0; i < startCount; i += 1) {
      const args = planned(values.flatMap((list) => list[i % list.length] ?? []));
      // Arguments before it are parsed.
      const { stdout, stderr } = await run(llamaServer as string, [...args, "--version"]);
      expect(`${stdout}${stderr}`, args.join(" ")).toContain("version:");
    }
    await expect(run(llamaServer as string, ["--no-such-argument", "--version"])).rejects.toThrow(/no-such-argument/);
  });

  it("never runs more than max_batch_size of 5 parallel streams, and lets none wait in the server", async () => {
    let isOver = false;
    const seen: { running: number; waiting: number }[] = [];
    const watching = (async () => {
      while (!isOver)
        seen.push({ running: await metric("requests_processing"), waiting: await metric("requests_deferred") });
    })();
    const replies = await Promise.all(
      Array.from({ length: 5 }, async (_, i) => {
        const reply = await complete({ prompt: `Story ${i}:`, max_tokens: 8, temperature: 0, stream: true });
        return { status: reply.status, text: await reply.text() };
      }),
    );
    isOver = true;
    await watching;
    expect(replies.every(({ status, text }) => status === 200 && text.endsWith("data: [DONE]\n\n"))).toBe(true);
    expect(Math.max(...seen.map(({ running }) => running))).toBe(slots);
    expect(Math.max(...seen.map(({ waiting }) => waiting))).toBe(0);
  });

  it("stops generating within a second of a hang-up and bills what was generated", async () => {
    const abort = new AbortController();
    const reply = await complete(
      { prompt: "A long tale:", max_tokens: 400, stream: true, ignore_eos: true },
      abort.signal,
    );
    const reader = reply.body?.getReader();
    await reader?.read();
    abort.abort();
    const goneAt = performance.now();
    await vi.waitFor(async () => expect(await metric("requests_processing")).toBe(0), {
      timeout: 10_000,
      interval: 20,
    });
    expect(performance.now() - goneAt).toBeLessThan(promisedMs(1_000));
    const row = await settled(reply);
    expect(row).toMatchObject({ end_reason: "client_gone" });
    expect(row.output_tokens).toBeGreaterThan(0);
    expect(row.output_tokens).toBeLessThan(400);
  });

  it("requires the key of its launch on every path that the agent uses", async () => {
    const { url } = await askEngine(stack.agentFolder(1), "/metrics");
    for (const path of ["/metrics", "/v1/chat/completions", "/lora-adapters", "/props"])
      expect((await fetch(new URL(path, url), { method: path === "/metrics" ? "GET" : "POST" })).status).toBe(401);
  });

  it("is adopted by the next agent after kill -9, and finishes its running requests in a drain", async () => {
    const [pid] = instancePids(stack.agentFolder(1));
    await stack.agents[0]?.kill9();
    expect(isAlive(pid as number)).toBe(true);
    stack.agents[0]?.start();
    await vi.waitFor(async () => expect((await complete({ prompt: "Hi", max_tokens: 1 })).status).toBe(200), {
      timeout: 30_000,
      interval: 200,
    });
    expect(instancePids(stack.agentFolder(1))).toEqual([pid]);
    const reply = await complete({ prompt: "A tale:", max_tokens: 16, stream: true, ignore_eos: true });
    expect((await stack.call("DELETE", `/deploy/${deployId}`)).status).toBe(200);
    expect(await reply.text()).toMatch(/\[DONE\]\n\n$/);
    expect((await settled(reply)).output_tokens).toBe(16);
    await vi.waitFor(() => expect(isAlive(pid as number)).toBe(false), { timeout: 30_000, interval: 100 });
  });
});
