// The whole path with real weights and real processes: gateway, agent, runtime, PostgreSQL.
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { isNightly, promisedMs } from "../../fakes/nightly.ts";
import { askEngine, endInstances, instancePids, isAlive, type Stack, startStack } from "../../fakes/processes.ts";
import { readResumed, textOf } from "../../fakes/resuming-client.ts";
import { hasCurl, recordOf, runLine } from "../../fakes/shell-line.ts";
import { ledgerFacts, type UsageRow, usageOf } from "./database.ts";
import { demoModel, deploySmolLM, hasRealModel } from "./model.ts";

const soundBooks = { sum: 0, overspent: 0, capturesPerRequest: 1 };

// `test/chaos` kills agents and control planes with the tiny runtime at every change.
if (!isNightly) console.warn("NOT PROVEN here: kills with a real model. npm run test:nightly does.");

describe.skipIf(!hasRealModel("the spine with a real language model"))("the spine with SmolLM2", () => {
  let stack: Stack;
  let client: OpenAI;

  beforeAll(async () => {
    stack = await startStack();
    await deploySmolLM(stack, 4);
    client = new OpenAI({ apiKey: stack.apiKey, baseURL: `${stack.url}/v1/compat`, maxRetries: 0 });
  });
  afterAll(() => stack?.stop());

  const complete = (body: object, signal?: AbortSignal) =>
    fetch(`${stack.url}/v1/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model: demoModel, ...body }),
      ...(signal ? { signal } : {}),
    });
  /** The one settled row of an answer. */
  const settled = (answer: Response): Promise<UsageRow> =>
    vi.waitFor(
      async () => {
        const rows = await usageOf(stack.databaseUrl, answer.headers.get("x-stoker-request-id") ?? "");
        expect(rows).toHaveLength(1);
        return rows[0] as UsageRow;
      },
      { timeout: 30_000, interval: 200 },
    );

  it("completes 'The capital of France is' with Paris", async () => {
    const answer = await complete({ prompt: "The capital of France is", max_tokens: 8, temperature: 0 });
    expect(answer.status).toBe(200);
    const body = (await answer.json()) as {
      choices: { text: string }[];
      usage: { estimated_cost: number; completion_tokens: number };
    };
    expect(body.choices[0]?.text).toContain("Paris");
    expect(body.usage.estimated_cost).toBeGreaterThan(0);
    expect((await settled(answer)).output_tokens).toBe(body.usage.completion_tokens);
  });

  it.runIf(hasCurl)("is called by the lines of its record as they stand", async () => {
    const { curl_inv, cmdline_inv } = await recordOf(stack, demoModel);
    const curl = await runLine(curl_inv, stack);
    expect(curl.code, curl.err).toBe(0);
    const answer = JSON.parse(curl.out);
    // The lines ask as anybody would, with the model's own temperature: what it says is its own.
    expect(answer.results[0].generated_text).toMatch(/\w/);
    expect(answer.num_tokens).toBeGreaterThan(0);
    expect(answer.inference_status).toMatchObject({ status: "succeeded", tokens_generated: answer.num_tokens });
    const command = await runLine(cmdline_inv, stack);
    expect(command.code, command.err).toBe(0);
    expect(command.out).toMatch(/\w/);
  });

  it("streams a chat whose usage in PostgreSQL equals what the engine counted", async () => {
    const { data: stream, response } = await client.chat.completions
      .create({
        model: demoModel,
        messages: [{ role: "user", content: "Count from one to five." }],
        max_tokens: 32,
        temperature: 0,
        stream: true,
        stream_options: { include_usage: true },
      })
      .withResponse();
    let text = "";
    let usage: OpenAI.CompletionUsage | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    expect(text.length).toBeGreaterThan(3);
    expect(await settled(response)).toMatchObject({
      input_tokens: usage?.prompt_tokens,
      output_tokens: usage?.completion_tokens,
      source: "engine",
    });
    const page = await (await askEngine(stack.agentFolder(1), "/metrics")).text();
    expect(page).toContain("stoker_runtime_num_requests_running");
  });

  it("gives the same text and usage by chat and by responses, whole, streamed and in the background", async () => {
    const content = "Name the capital of France.";
    const limits = { model: demoModel, temperature: 0 };
    const chat = await client.chat.completions.create({
      ...limits,
      max_tokens: 24,
      messages: [{ role: "user", content }],
    });
    const asked = { ...limits, input: content, max_output_tokens: 24 };
    const whole = await client.responses.create(asked);
    const streamed = await client.responses.stream(asked).finalResponse();
    const { id } = await client.responses.create({ ...asked, background: true, store: true });
    const later = await vi.waitFor(
      async () => {
        const response = await client.responses.retrieve(id);
        expect(["completed", "incomplete"]).toContain(response.status);
        return response;
      },
      { timeout: 60_000, interval: 200 },
    );
    for (const response of [whole, streamed, later]) {
      expect(response.output_text).toBe(chat.choices[0]?.message.content);
      expect(response.usage).toMatchObject({
        input_tokens: chat.usage?.prompt_tokens,
        output_tokens: chat.usage?.completion_tokens,
      });
    }
    const format = {
      type: "json_schema" as const,
      name: "answer",
      schema: {
        type: "object",
        properties: { yes: { type: "boolean" } },
        required: ["yes"],
        additionalProperties: false,
      },
    };
    const parsed = await client.responses.parse({ ...asked, input: "Is it day?", text: { format } });
    expect(parsed.output_parsed).toEqual({ yes: expect.any(Boolean) });
  });

  it("serves the official client in its JSON schema, and refuses tools that the model does not support", async () => {
    const messages = [{ role: "user", content: "What is the weather in Paris?" }] as const;
    const schema = {
      type: "object",
      properties: { city: { type: "string", maxLength: 12 }, degrees: { type: "integer", minimum: -50, maximum: 60 } },
      required: ["city", "degrees"],
      additionalProperties: false,
    };
    const json = await client.chat.completions.create({
      model: demoModel,
      messages: [...messages],
      response_format: { type: "json_schema", json_schema: { name: "weather", schema } },
      max_tokens: 64,
      temperature: 0,
    });
    expect(JSON.parse(json.choices[0]?.message.content ?? "")).toMatchObject({
      city: expect.any(String),
      degrees: expect.any(Number),
    });
    const tools = [{ type: "function" as const, function: { name: "get_weather", parameters: schema } }];
    const asking = client.chat.completions.create({ model: demoModel, messages: [...messages], tools });
    await expect(asking).rejects.toMatchObject({ status: 405, param: "tools" });
  });

  it("reports cached tokens for the second request with the same long prefix", async () => {
    const system = `You are a guide of an old harbour town. ${"The lighthouse stands on the pier. ".repeat(20)}`;
    const ask = (question: string) =>
      client.chat.completions.create({
        model: demoModel,
        messages: [
          { role: "system", content: system },
          { role: "user", content: question },
        ],
        max_tokens: 4,
      });
    await ask("Where is the lighthouse?");
    const second = await ask("Where is the pier?");
    expect(second.usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(100);
  });

  it("stops generating within a second of a hang-up and bills what was generated", async () => {
    const abort = new AbortController();
    const answer = await complete(
      { prompt: "A long tale:", max_tokens: 2000, stream: true, ignore_eos: true },
      abort.signal,
    );
    await readFrames(answer, 10);
    abort.abort();
    const goneAt = performance.now();
    const running = async () => {
      const health = await askEngine(stack.agentFolder(1), "/health");
      return ((await health.json()) as { num_running: number }).num_running;
    };
    await vi.waitFor(async () => expect(await running()).toBe(0), { timeout: 10_000, interval: 20 });
    expect(performance.now() - goneAt).toBeLessThan(promisedMs(1_000));
    const row = await settled(answer);
    expect(row).toMatchObject({ end_reason: "client_gone", source: "engine" });
    expect(row.output_tokens).toBeGreaterThanOrEqual(10);
    expect(row.output_tokens).toBeLessThan(400);
    expect(row.charge).toBeGreaterThan(0);
  });

  it.runIf(isNightly)("adopts the same model process after kill -9 of an idle agent, without a reload", async () => {
    const [pid] = instancePids(stack.agentFolder(1));
    await stack.agents[0]?.kill9();
    expect(isAlive(pid as number)).toBe(true);
    stack.agents[0]?.start();
    await vi.waitFor(async () => expect((await complete({ prompt: "Hi", max_tokens: 1 })).status).toBe(200), {
      timeout: 30_000,
      interval: 200,
    });
    expect(instancePids(stack.agentFolder(1))).toEqual([pid]);
  });

  it.runIf(isNightly)("loses no usage and bills none twice when the control plane is killed mid-stream", async () => {
    const answer = await complete({
      prompt: "Tell me about the sea.",
      max_tokens: 300,
      stream: true,
      ignore_eos: true,
    });
    await readFrames(answer, 5);
    await stack.controlPlane.kill9();
    stack.controlPlane.start();
    const row = await settled(answer);
    expect(row.output_tokens).toBeGreaterThanOrEqual(5);
    expect(row.charge).toBeGreaterThan(0);
    expect(await ledgerFacts(stack.databaseUrl)).toEqual(soundBooks);
  });

  const killed: Readonly<Record<string, () => Promise<void>>> = {
    "the model server": async () => endInstances(stack.agentFolder(1)),
    "the agent": async () => {
      await stack.agents[0]?.kill9();
      stack.agents[0]?.start();
    },
    "the control plane": async () => {
      await stack.controlPlane.kill9();
      stack.controlPlane.start();
    },
  };

  it.runIf(isNightly).each(Object.keys(killed))(
    "gives a resumable stream the text of an unbroken one, and bills it once, when %s is killed",
    async (victim) => {
      const chat = { model: demoModel, max_tokens: 200, temperature: 0, ignore_eos: true, stream: true };
      const messages = [{ role: "user", content: "Write a story about a lighthouse." }];
      const ask = {
        urls: [stack.url],
        path: "/v1/chat/completions",
        headers: { authorization: `Bearer ${stack.apiKey}` },
        body: { ...chat, messages },
        pauseMs: 500,
      };
      const unbroken = await readResumed(ask);
      let seen = 0;
      let kill: Promise<void> | undefined;
      const broken = await readResumed({
        ...ask,
        onEvent: () => {
          seen += 1;
          if (seen === 40) kill = killed[victim]?.();
        },
      });
      await kill;
      expect(textOf(broken.events)).toBe(textOf(unbroken.events));
      await vi.waitFor(
        async () => {
          const charged = (await usageOf(stack.databaseUrl, broken.requestId)).filter(({ charge }) => charge > 0);
          expect(charged.map(({ output_tokens }) => output_tokens)).toEqual([200]);
          const attempts = await usageOf(stack.databaseUrl, broken.requestId);
          expect(attempts.at(-1)?.attempt).toBeGreaterThan(1);
        },
        { timeout: 90_000, interval: 500 },
      );
      expect(await ledgerFacts(stack.databaseUrl)).toEqual(soundBooks);
    },
  );

  it.runIf(isNightly).each(Object.keys(killed))(
    "gives four resumable streams side by side the texts of streams alone, and bills each once, when %s is killed",
    async (victim) => {
      const tell = (topic: string, onEvent: () => void = () => {}) =>
        readResumed({
          urls: [stack.url],
          path: "/v1/chat/completions",
          headers: { authorization: `Bearer ${stack.apiKey}` },
          body: {
            model: demoModel,
            max_tokens: 120,
            temperature: 0,
            ignore_eos: true,
            stream: true,
            messages: [{ role: "user", content: `Write a story about ${topic}.` }],
          },
          onEvent,
          pauseMs: 500,
        });
      const topics = ["a lighthouse", "a fox in the snow", "a lost key", "an old train"];
      const alone: string[] = [];
      for (const topic of topics) alone.push(textOf((await tell(topic)).events));
      let waiting = topics.length;
      const underWay = Promise.withResolvers<void>();
      const streams = topics.map((topic) => {
        let seen = 0;
        return tell(topic, () => {
          seen += 1;
          if (seen === 40 && --waiting === 0) underWay.resolve();
        });
      });
      await underWay.promise;
      await killed[victim]?.();
      const ended = await Promise.all(streams);
      expect(ended.map(({ events }) => textOf(events))).toEqual(alone);
      await vi.waitFor(
        async () => {
          for (const { requestId } of ended) {
            const attempts = await usageOf(stack.databaseUrl, requestId);
            const charged = attempts.filter(({ charge }) => charge > 0);
            expect(charged.map(({ output_tokens }) => output_tokens)).toEqual([120]);
            expect(attempts.at(-1)?.attempt).toBeGreaterThan(1);
          }
        },
        { timeout: 90_000, interval: 500 },
      );
      expect(await ledgerFacts(stack.databaseUrl)).toEqual(soundBooks);
    },
    600_000,
  );

  it.runIf(isNightly)("moves and restarts nothing while the control plane is unavailable", async () => {
    const before = instancePids(stack.agentFolder(1));
    await stack.controlPlane.kill9();
    // Long enough for many liveness probes and reconnects of the agent; host clocks have a test of their own.
    const reconnects = () => stack.agents[0]?.log().match(/control plane/g)?.length ?? 0;
    const had = reconnects();
    await vi.waitFor(() => expect(reconnects()).toBeGreaterThan(had), { timeout: 60_000, interval: 200 });
    stack.controlPlane.start();
    await vi.waitFor(async () => expect((await complete({ prompt: "Hi", max_tokens: 1 })).status).toBe(200), {
      timeout: 60_000,
      interval: 200,
    });
    expect(instancePids(stack.agentFolder(1))).toEqual(before);
    expect(before.every(isAlive)).toBe(true);
  });
});

/** Reads until so many data frames came; leaves the stream open. */
async function readFrames(answer: Response, count: number): Promise<void> {
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  for (let frames = 0; frames < count; ) {
    const { value, done } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done) throw new Error(`the stream ended after ${frames} frames`);
    frames += decoder.decode(value).split("data: ").length - 1;
  }
}
