import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { longer, promisedMs } from "../../fakes/nightly.ts";
import { hasModel, type RuntimeProcess, startRuntime } from "./runtime-process.ts";

const model = "HuggingFaceTB/SmolLM2-135M-Instruct";
const paris = { model, prompt: "The capital of France is", temperature: 0, max_tokens: 8 };

describe.runIf(hasModel("completions and chat of the model server"))("the model server", () => {
  let runtime: RuntimeProcess;
  beforeAll(async () => {
    runtime = await startRuntime();
  });
  afterAll(() => runtime?.stop());
  const complete = (body: object) => runtime.post("/v1/completions", body);
  const chat = (body: object) => runtime.post("/v1/chat/completions", { model, temperature: 0, ...body });

  it("completes the capital of France with Paris and counts its tokens", async () => {
    const { status, body } = await complete(paris);
    expect(status).toBe(200);
    expect(body).toMatchObject({ object: "text_completion", model });
    expect(body.choices[0].text).toContain("Paris");
    expect(body.choices[0].finish_reason).toBe("length");
    expect(body.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 8, total_tokens: 13 });
  });

  it("streams a chat whose usage frame stands alone before the end", async () => {
    const request = { model, temperature: 0, messages: [{ role: "user", content: "Say hello." }], max_tokens: 12 };
    const whole = await chat(request);
    const { chunks, raw } = await runtime.stream("/v1/chat/completions", {
      ...request,
      stream_options: { include_usage: true },
    });
    const text = chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? "").join("");
    expect(chunks[0].choices[0].delta.role).toBe("assistant");
    expect(text).toBe(whole.body.choices[0].message.content);
    expect(chunks.at(-2).choices[0]).toMatchObject({ delta: {}, finish_reason: "length" });
    expect(chunks.at(-1).choices).toEqual([]);
    expect(chunks.at(-1).usage.completion_tokens).toBe(12);
    expect(chunks.filter((chunk) => chunk.usage)).toHaveLength(1);
    expect(raw).toContain('"usage":{"prompt_tokens"');
    expect(raw.endsWith("data: [DONE]\n\n")).toBe(true);
  });

  it("leaves usage out of a stream that did not request it and repeats it on every chunk on request", async () => {
    const plain = await runtime.stream("/v1/completions", { ...paris, max_tokens: 3 });
    expect(plain.raw).not.toContain('"usage"');
    const { chunks } = await runtime.stream("/v1/completions", {
      ...paris,
      max_tokens: 3,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    });
    expect(chunks.map((chunk) => chunk.usage.completion_tokens)).toEqual([1, 2, 3, 3, 3]);
  });

  it("gives n choices, counts the prompt once and every choice's tokens", async () => {
    const { body } = await complete({ ...paris, temperature: 1.5, n: 3, seed: 7 });
    expect(body.choices.map((choice: { index: number }) => choice.index)).toEqual([0, 1, 2]);
    expect(body.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 24 });
    expect(new Set(body.choices.map((choice: { text: string }) => choice.text)).size).toBeGreaterThan(1);
  });

  it("stops before a stop sequence and at a stop token", async () => {
    const stopped = await complete({ ...paris, stop: ["aris"] });
    expect(stopped.body.choices[0]).toMatchObject({ text: " P", finish_reason: "stop" });
    const { body } = await complete({ ...paris, max_tokens: 1, logprobs: 0, return_tokens_as_token_ids: true });
    const id = Number(body.choices[0].logprobs.tokens[0].split(":")[1]);
    const byToken = await complete({ ...paris, stop_token_ids: [id] });
    expect(byToken.body.choices[0]).toMatchObject({ text: "", finish_reason: "stop" });
    expect(byToken.body.usage.completion_tokens).toBe(1);
  });

  it("repeats itself for a seed, also one beyond 2^53, and differs for another", async () => {
    const body = (seed: string) =>
      `{"model":"m","prompt":"Once upon a time","temperature":1.2,"max_tokens":12,"seed":${seed}}`;
    const texts: string[] = [];
    for (const seed of ["1", "18446744073709551615", "18446744073709551615", "18446744073709551614"]) {
      const answer = await runtime.post("/v1/completions", body(seed));
      expect(answer.status).toBe(200);
      texts.push(answer.body.choices[0].text);
    }
    expect(texts[1]).toBe(texts[2]);
    expect(new Set(texts).size).toBe(3);
  });

  it("returns log-probabilities of the model itself, whatever the temperature", async () => {
    const at = async (temperature: number, top_p: number) =>
      (await complete({ ...paris, temperature, top_p, max_tokens: 1, seed: 1, logprobs: 5 })).body.choices[0].logprobs;
    const greedy = await at(0, 1);
    expect(greedy.tokens).toEqual([" Paris"]);
    expect(Object.keys(greedy.top_logprobs[0])).toHaveLength(5);
    const values = Object.values(greedy.top_logprobs[0]) as number[];
    expect(values.reduce((sum, value) => sum + Math.exp(value), 0)).toBeLessThanOrEqual(1);
    expect(greedy.token_logprobs[0]).toBeCloseTo(Math.max(...values), 5);
    const hot = await at(2, 0.5);
    expect(hot.top_logprobs[0][" Paris"]).toBeCloseTo(greedy.token_logprobs[0], 1);
    const { body } = await chat({
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 2,
      logprobs: true,
      top_logprobs: 3,
    });
    const { content } = body.choices[0].logprobs;
    expect(content.map((entry: { token: string }) => entry.token).join("")).toBe(body.choices[0].message.content);
    expect(content[0].top_logprobs).toHaveLength(3);
  });

  it("echoes the prompt with its own log-probabilities", async () => {
    const { body } = await complete({ ...paris, max_tokens: 2, echo: true, logprobs: 1 });
    const [choice] = body.choices;
    expect(choice.text.startsWith("The capital of France is Paris")).toBe(true);
    expect(choice.logprobs.tokens.join("")).toBe(choice.text);
    expect(choice.logprobs.token_logprobs[0]).toBeNull();
    expect(choice.logprobs.token_logprobs.slice(1).every((value: number) => value <= 0)).toBe(true);
    expect(choice.logprobs.text_offset.slice(0, 6)).toEqual([0, 3, 11, 14, 21, 24]);
  });

  it("holds an answer to a JSON schema, to JSON and to a regular expression", async () => {
    const messages = [{ role: "user", content: "Describe a person." }];
    const schema = {
      type: "object",
      properties: {
        name: { type: "string", maxLength: 8 },
        age: { type: "integer", minimum: 18, maximum: 65 },
        mood: { enum: ["calm", "angry"] },
      },
      required: ["name", "age", "mood"],
      additionalProperties: false,
    };
    const held = await chat({
      messages,
      max_tokens: 80,
      temperature: 1.5,
      seed: 3,
      response_format: { type: "json_schema", json_schema: { name: "person", schema } },
    });
    const person = JSON.parse(held.body.choices[0].message.content);
    expect(Object.keys(person)).toEqual(["name", "age", "mood"]);
    expect(person.age).toBeGreaterThanOrEqual(18);
    expect(person.age).toBeLessThanOrEqual(65);
    expect(["calm", "angry"]).toContain(person.mood);
    const any = await chat({ messages, max_tokens: 60, response_format: { type: "json_object" } });
    expect(any.body.choices[0].message.content).toMatch(/^\{/);
    const regex = await chat({
      messages,
      max_tokens: 20,
      response_format: { type: "regex", regex: "^(red|blue)-[0-9]{3}$" },
    });
    expect(regex.body.choices[0].message.content).toMatch(/^(red|blue)-[0-9]{3}$/);
    const plain = await complete({ ...paris, max_tokens: 20, response_format: { type: "regex", regex: "^[0-9]{3}$" } });
    expect(plain.body.choices[0].text).toMatch(/^[0-9]{3}$/);
  });

  it("reports the tokens of a long prefix it had seen as cached", async () => {
    const story = "The quick brown fox jumps over the lazy dog near the old stone bridge. ".repeat(8);
    const ask = (question: string) =>
      chat({ messages: [{ role: "user", content: story + question }], max_tokens: 4 }).then(({ body }) => body.usage);
    const first = await ask("Who jumps?");
    const second = await ask("Who is lazy?");
    expect(second.prompt_tokens_details.cached_tokens).toBeGreaterThan(100);
    expect(second.prompt_tokens_details.cached_tokens).toBeLessThan(second.prompt_tokens);
    expect(first.prompt_tokens).toBeGreaterThan(100);
  });

  it("continues a last message of the assistant", async () => {
    const { body } = await chat({
      messages: [
        { role: "user", content: "What is the capital of France?" },
        { role: "assistant", content: "The capital of France is" },
      ],
      max_tokens: 3,
    });
    expect(body.choices[0].message.content).toContain("Paris");
  });

  it("refuses what it cannot honour with the status and field that say why", async () => {
    const messages = [{ role: "user", content: "hi" }];
    const tools = [{ type: "function", function: { name: "f" } }];
    const image = [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }];
    const rows = [
      [await complete({ ...paris, temperature: 3 }), 422, "temperature", /at most 2/],
      [await complete({ ...paris, n: 5 }), 422, "n", /at most 4/],
      [await complete({ ...paris, prompt: "word ".repeat(2000) }), 400, null, /1024 tokens.*2\d{3}/],
      [await chat({ messages: image }), 400, "messages.0.content.0", /image_url/],
      [await chat({ messages, tools }), 405, "tools", /Tool calling is not supported for model: HuggingFaceTB/],
      [await runtime.post("/v1/completions", "{"), 400, null, /not readable JSON/],
    ] as const;
    for (const [answer, status, param, text] of rows) {
      expect(answer.status).toBe(status);
      expect(answer.body.error).toMatchObject({ type: "invalid_request_error", param });
      expect(answer.body.error.message).toMatch(text);
    }
    expect(rows[2][0].body.error.code).toBe("context_length_exceeded");
  });

  it("refuses prompts of megabytes without keeping others from their answers", async () => {
    const size = 9 * 1024 * 1024;
    const texts = ["a", "<|im_start|>", " word"].map((text) => text.repeat(size / text.length));
    let isOver = false;
    let answered = 0;
    const neighbour = (async () => {
      for (; !isOver; answered += 1) expect((await complete({ ...paris, max_tokens: 1 })).status).toBe(200);
    })();
    const startedAt = performance.now();
    const answers = await Promise.all(
      texts.flatMap((text) => [
        complete({ ...paris, prompt: text, max_tokens: 1 }),
        chat({ messages: [{ role: "user", content: text }], max_tokens: 1 }),
      ]),
    );
    const seconds = (performance.now() - startedAt) / 1000;
    isOver = true;
    await neighbour;
    for (const { status, body } of answers) {
      expect(status).toBe(400);
      expect(body.error.code).toBe("context_length_exceeded");
      expect(body.error.message).toMatch(/context is 1024 tokens.*more than 1024/);
    }
    // Tokenising all of them takes more than a minute.
    expect(seconds).toBeLessThan(30);
    expect(answered).toBeGreaterThan(0);
  });

  it("reports the tokens of a prompt that is up to half longer than the context", async () => {
    const { status, body } = await complete({ ...paris, prompt: "extraordinary ".repeat(1_300) });
    expect(status).toBe(400);
    expect(body.error.message).toMatch(/has 1\d{3}; shorten it by at least \d+/);
  });

  it("never runs more than max_batch_size sequences, whatever waits", async () => {
    let isOver = false;
    const seen: number[] = [];
    const watch = (async () => {
      for (; !isOver; await pause(20)) seen.push((await runtime.get("/health")).body.num_running);
    })();
    const tokens = longer(12, 40);
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        complete({ ...paris, prompt: `Number ${i} is`, max_tokens: tokens, ignore_eos: true }),
      ),
    );
    isOver = true;
    await watch;
    expect(answers.map((answer) => answer.body.usage.completion_tokens)).toEqual(Array(8).fill(tokens));
    expect(Math.max(...seen)).toBeLessThanOrEqual(4);
    // By the engine's own count: a look from outside may miss the moment.
    const { body } = await runtime.get("/metrics");
    const runs = (most: string) =>
      Number(new RegExp(`^stoker_runtime_batch_size_bucket\\{le="${most}"\\} (\\d+)$`, "m").exec(body)?.[1]);
    expect(runs("4")).toBe(runs("\\+Inf"));
    expect(runs("4")).toBeGreaterThan(runs("2"));
  });

  it("stops within a second when the client hangs up and says what was used", async () => {
    const gone = new AbortController();
    const answer = await fetch(`${runtime.url}/v1/completions`, {
      method: "POST",
      headers: { "x-stoker-request-id": "hang-up-1" },
      body: JSON.stringify({ ...paris, max_tokens: 900, ignore_eos: true, stream: true }),
      signal: gone.signal,
    });
    await answer.body?.getReader().read();
    gone.abort();
    await expect
      .poll(async () => (await runtime.get("/usage/hang-up-1")).body, { timeout: promisedMs(1_000), interval: 20 })
      .toMatchObject({ finished: true, aborted: true, input_tokens: 5 });
    const usage = (await runtime.get("/usage/hang-up-1")).body;
    expect(usage.output_tokens).toBeGreaterThan(0);
    expect(usage.output_tokens).toBeLessThan(200);
    await expect.poll(async () => (await runtime.get("/health")).body.num_running).toBe(0);
    expect((await runtime.get("/usage/nobody")).status).toBe(404);
  });

  it("logs one line per request and never the prompt", async () => {
    const id = { "x-stoker-request-id": "logged-1" };
    await runtime.post("/v1/completions", { ...paris, prompt: "A very secret prompt" }, id);
    const lines = () =>
      runtime
        .log()
        .split("\n")
        .filter((line) => line.includes('"logged-1"'));
    await vi.waitFor(() => expect(lines()).toHaveLength(1), { timeout: 20_000 });
    expect(JSON.parse(lines()[0] as string)).toMatchObject({ route: "/v1/completions", status: 200, outputTokens: 8 });
    expect(runtime.log()).not.toContain("secret");
  });
});
