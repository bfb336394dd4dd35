// Native inference from the edge to a model server and back: fields of each task in, its results with their cost out.

import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { wavHeader } from "../../proto/wav.ts";
import { apiKey, servedModel } from "../fakes/ports.ts";
import { form, startTaskEdge, type TaskEdge, wav } from "../fakes/task-edge.ts";

let tasks: TaskEdge;
beforeAll(async () => {
  tasks = await startTaskEdge();
});
beforeEach(() => tasks.offer({}));
afterAll(() => tasks.close());

describe("native inference", () => {
  const native = (body: object | string) => tasks.edge.post("/v1/inference/org/model", body);

  it("answers a text with its cost and counts", async () => {
    tasks.offer({ rates: servedModel().rates });
    tasks.json({
      choices: [{ index: 0, text: " dream", finish_reason: "stop" }],
      usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 },
    });
    const answer = await native({ input: "I have this", max_new_tokens: 8, temperature: "0.5", webhook: null });
    const body = await answer.json();
    expect(answer.status, JSON.stringify(body)).toBe(200);
    expect(body).toMatchObject({
      results: [{ generated_text: " dream" }],
      num_tokens: 2,
      num_input_tokens: 4,
      request_id: answer.headers.get("x-stoker-request-id"),
      inference_status: { status: "succeeded", cost: 0.00000016, tokens_generated: 2, tokens_input: 4 },
    });
    expect(tasks.askedJson()).toMatchObject({
      model: "as-served",
      prompt: "I have this",
      max_tokens: 8,
      temperature: 0.5,
    });
  });

  it("streams tokens with their ids, and the whole text at the end", async () => {
    tasks.offer({ rates: servedModel().rates });
    const frame = (text: string, id: number, finish: string | null) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, text, finish_reason: finish, logprobs: { tokens: [`token_id:${id}`], token_logprobs: [-0.5] } }] })}\n\n`;
    const usage = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 } })}\n\n`;
    tasks.engine.answer({
      contentType: "text/event-stream",
      pieces: [frame("über", 7, null), frame("all", 8, "stop"), usage, "data: [DONE]\n\n"],
    });
    const answer = await native({ input: "x", stream: true });
    const events = (await answer.text()).trim().split("\n\n");
    expect(events.at(-1)).toBe("data: [DONE]");
    const [first, last] = events.slice(0, -1).map((event) => JSON.parse(event.slice(6)));
    expect(first).toEqual({
      token: { id: 7, text: "über", logprob: -0.5, special: false },
      generated_text: null,
      details: null,
    });
    expect(last).toMatchObject({
      token: { id: 8 },
      generated_text: "überall",
      details: { finish_reason: "stop", generated_tokens: 2, seed: null },
    });
    expect(tasks.askedJson()).toMatchObject({ stream: true, logprobs: 0, return_tokens_as_token_ids: true });
  });

  it.each([
    ["a number", () => native('{"input":"x","seed":18446744073709551615}')],
    ["a text", () => native({ input: "x", seed: "18446744073709551615" })],
    [
      "a part of a form",
      () => tasks.send("/v1/inference/org/model", form({ input: "x", seed: "18446744073709551615" })),
    ],
  ])("keeps a seed beyond 2^53 to its last digit as %s", async (_, ask) => {
    tasks.offer({ rates: servedModel().rates });
    tasks.json({ choices: [{ index: 0, text: "y", finish_reason: "stop" }] });
    const answer = await ask();
    expect(answer.status, await answer.text()).toBe(200);
    expect(tasks.asked().body.toString()).toContain('"seed":18446744073709551615');
  });

  it("refuses a seed of a form that is out of range with its bound to the last digit", async () => {
    tasks.offer({ rates: servedModel().rates });
    const answer = await tasks.send("/v1/inference/org/model", form({ input: "x", seed: "18446744073709551616" }));
    expect([answer.status, (await answer.json()).detail[0]]).toEqual([
      422,
      { loc: ["body", "seed"], msg: "Input should be less than 18446744073709551616", type: "less_than" },
    ]);
  });

  it("lets a line of an engine's stream that is no event of text say nothing", async () => {
    tasks.offer({ rates: servedModel().rates });
    const event = JSON.stringify({
      choices: [{ index: 0, text: "a", finish_reason: "stop", logprobs: { tokens: [5] } }],
    });
    const choices = [null, { text: "a", logprobs: { tokens: 7 } }, { text: "a", logprobs: { token_logprobs: {} } }];
    const odd = [
      ...[...choices, { text: { toString: 1 } }, { text: ["a"] }].map((one) => JSON.stringify({ choices: [one] })),
    ].map((line) => `data: ${line}\r\n\r\n`);
    tasks.engine.answer({
      contentType: "text/event-stream",
      pieces: [...odd, `data: ${event}\n\n`, "data: [DONE]\n\n"],
    });
    const answer = await native({ input: "x", stream: true });
    const events = (await answer.text()).trim().split("\n\n");
    expect([events.length, events.at(-1)]).toEqual([2, "data: [DONE]"]);
    expect(JSON.parse(events[0]?.slice(6) ?? "")).toMatchObject({ token: { text: "a" }, generated_text: "a" });
  });

  it("streams several responses apart: each event says of which it is, each response ends with its own text", async () => {
    tasks.offer({ rates: servedModel().rates });
    const choice = (index: number, text: string, finish: string | null = null) => ({
      index,
      text,
      finish_reason: finish,
    });
    const frame = (...choices: object[]) => `data: ${JSON.stringify({ choices })}\n\n`;
    tasks.engine.answer({
      contentType: "text/event-stream",
      pieces: [
        frame(choice(0, "a")),
        frame(choice(1, "x"), choice(0, "b", "stop")),
        frame(choice(1, "y")),
        frame(choice(1, "", "length")),
        "data: [DONE]\n\n",
      ],
    });
    const answer = await native({ input: "x", stream: true, num_responses: 2 });
    const events = (await answer.text())
      .trim()
      .split("\n\n")
      .slice(0, -1)
      .map((event) => JSON.parse(event.slice(6)));
    const told = events.map(({ index, token, generated_text, details }) => [
      index,
      token.text,
      generated_text,
      details,
    ]);
    const end = (finish_reason: string) => ({ finish_reason, generated_tokens: 2, seed: null });
    expect(told).toEqual([
      [0, "a", null, null],
      [1, "x", null, null],
      [0, "b", "ab", end("stop")],
      [1, "y", null, null],
      [1, "", "xy", end("length")],
    ]);
  });

  it("tells a stream that broke in its own words", async () => {
    tasks.engine.answer({
      contentType: "text/event-stream",
      pieces: ['data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'],
      breaks: true,
    });
    const text = await (await native({ input: "x", stream: true })).text();
    const last = JSON.parse((text.trim().split("\n\n").at(-1) as string).slice(6));
    expect(last).toMatchObject({ error_type: expect.any(String), error_message: expect.any(String) });
    expect(text).not.toContain("[DONE]");
  });

  it("gives vectors", async () => {
    tasks.offer({ task: "embeddings" });
    tasks.json({ data: [{ index: 0, embedding: [1, 2] }], usage: { prompt_tokens: 3, total_tokens: 3 } });
    const body = await (await native({ inputs: ["a"], normalize: true })).json();
    expect(body).toMatchObject({
      embeddings: [[1, 2]],
      input_tokens: 3,
      inference_status: { cost: 0.00000006, tokens_input: 3 },
    });
    expect(tasks.askedJson()).toEqual({ model: "as-served", input: ["a"], normalize: true });
  });

  it("refuses a picture where vectors are made of texts, and takes null for none", async () => {
    tasks.offer({ task: "embeddings" });
    tasks.json({ data: [{ index: 0, embedding: [1, 2] }], usage: { prompt_tokens: 3, total_tokens: 3 } });
    const refused = await native({ inputs: ["a"], image: "data:image/png;base64,iVBORw0KGgo=" });
    expect([refused.status, (await refused.json()).detail[0].loc]).toEqual([422, ["body", "image"]]);
    expect((await native({ inputs: ["a"], image: null })).status).toBe(200);
    tasks.offer({ task: "text-to-image" });
    tasks.json({ data: [{ b64_json: "AA==" }] });
    expect((await native({ prompt: "a", image: null })).status).toBe(200);
    expect(tasks.askedJson()).not.toHaveProperty("image");
  });

  it("asks an engine that ranks for one query alone for the scores of pairs", async () => {
    tasks.offer({ task: "reranker", engine: "external" });
    tasks.json({
      data: [
        { index: 1, object: "score", score: 0.9 },
        { index: 0, object: "score", score: 0.1 },
      ],
    });
    const pairs = { queries: ["q1", "q2"], documents: ["d1", "d2"] };
    expect((await (await native(pairs)).json()).scores).toEqual([0.1, 0.9]);
    expect(tasks.asked().path).toBe("/v1/score");
    expect(tasks.askedJson()).toEqual({ model: "as-served", text_1: ["q1", "q2"], text_2: ["d1", "d2"] });
    tasks.offer({ task: "reranker" });
    await native(pairs);
    expect(tasks.asked().path).toBe("/v1/rerank");
    expect(tasks.askedJson()).toMatchObject(pairs);
  });

  it("ranks documents in the order they came", async () => {
    tasks.offer({ task: "reranker" });
    tasks.json({
      results: [
        { index: 1, relevance_score: 0.9 },
        { index: 0, relevance_score: 0.1 },
      ],
    });
    const body = await (await native({ queries: ["q", "q"], documents: ["a", "b"] })).json();
    expect(body.scores).toEqual([0.1, 0.9]);
    expect(tasks.askedJson()).toEqual({ model: "as-served", query: "q", documents: ["a", "b"] });
    const uneven = await native({ queries: ["q", "r"], documents: ["a"] });
    expect([uneven.status, (await uneven.json()).detail[0].loc]).toEqual([422, ["body", "documents"]]);
  });

  it("hears a file or a data URI", async () => {
    tasks.offer({ task: "automatic-speech-recognition" });
    const said = { text: "Hi", language: "english", duration: 1, segments: [{ id: 0, start: 0, end: 1, text: "Hi" }] };
    tasks.json({ ...said, words: [{ word: "Hi", start: 0, end: 1 }] });
    const sent = await tasks.send("/v1/inference/org/model", form({ audio: new Blob([wav(1)]), chunk_level: "word" }));
    expect(await sent.json()).toMatchObject({
      text: "Hi",
      language: "en",
      input_length_ms: 1000,
      duration: 1,
      words: [{ start: 0, end: 1, text: "Hi" }],
      inference_status: { cost: 0.0001 },
    });
    const uri = `data:audio/wav;base64,${wav(1).toString("base64")}`;
    expect((await native({ audio: uri })).status).toBe(200);
    const bad = await native({ audio: "said.wav" });
    expect([bad.status, (await bad.json()).code]).toEqual([422, "data_uri_invalid"]);
  });

  it("speaks into a data URI", async () => {
    tasks.offer({ task: "text-to-speech" });
    tasks.engine.answer({ contentType: "audio/wav", pieces: ["RI", "FF"] });
    const body = await (await native({ text: "Hello", preset_voice: "af_bella" })).json();
    expect(body).toMatchObject({
      audio: `data:audio/wav;base64,${Buffer.from("RIFF").toString("base64")}`,
      input_character_length: 5,
      output_format: "wav",
    });
    expect(tasks.askedJson()).toMatchObject({ voice: "af_bella", response_format: "wav" });
    tasks.engine.answer({ contentType: "audio/wav", pieces: [wavHeader(24_000), Buffer.alloc(4)] });
    const { audio } = (await (await native({ text: "Hello" })).json()) as { audio: string };
    expect(Buffer.from(audio.replace(/^.*,/, ""), "base64").readUInt32LE(40)).toBe(4);
  });

  it("paints, with sizes that came as texts", async () => {
    tasks.offer({ task: "text-to-image" });
    tasks.json({ data: [{ b64_json: "cGlj" }] });
    const body = await (
      await native({ prompt: "a cat", width: "512", height: "256", num_inference_steps: 10, seed: 4 })
    ).json();
    expect(body).toMatchObject({ images: ["data:image/png;base64,cGlj"], nsfw_content_detected: [false], seed: 4 });
    expect(tasks.askedJson()).toMatchObject({ size: "512x256", num_inference_steps: 10, seed: 4 });
    // An eighth of the pixels, half of the steps.
    expect(tasks.settled()).toBe(562_500n);
  });

  it("classifies by our own runtime's fields", async () => {
    tasks.offer({ task: "zero-shot-image-classification" });
    tasks.json({ results: [{ label: "cat", score: 0.9 }], usage: { input_tokens: 1 } });
    const body = form({
      image: new Blob([Buffer.from("png")], { type: "image/png" }),
      candidate_labels: '["cat","dog"]',
    });
    const answer = await (await tasks.send("/v1/inference/org/model", body)).json();
    expect(answer.results).toEqual([{ label: "cat", score: 0.9 }]);
    expect(answer.usage).toBeUndefined();
    expect(tasks.asked().path).toBe("/v1/infer");
    expect(tasks.askedJson()).toMatchObject({
      task: "zero-shot-image-classification",
      candidate_labels: ["cat", "dog"],
      image: expect.stringMatching(/^data:image\/png;base64,/),
    });
  });

  it("serves a deployment by its id, and refuses what it does not know", async () => {
    tasks.offer({ task: "embeddings" });
    tasks.json({ data: [{ index: 0, embedding: [1] }] });
    expect((await tasks.edge.post(`/v1/inference/deploy/${servedModel().deployId}`, { inputs: ["a"] })).status).toBe(
      200,
    );
    const unknown = await tasks.edge.post("/v1/inference/no/such", { inputs: ["a"] });
    expect([unknown.status, (await unknown.json()).code]).toEqual([404, "model_not_found"]);
    const missing = await native({});
    expect([missing.status, await missing.json()]).toMatchObject([
      422,
      {
        error: "inputs: Field required",
        detail: [{ loc: ["body", "inputs"], msg: "Field required", type: "missing" }],
      },
    ]);
    const form = await fetch(`${tasks.edge.url}/v1/inference/org/model`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "multipart/form-data; boundary=b" },
      body: "--b\r\nbroken",
    });
    expect([form.status, (await form.json()).code]).toEqual([400, "form_invalid"]);
  });

  it("says that an engine answered something else", async () => {
    tasks.offer({ task: "embeddings" });
    tasks.json({ vectors: [] });
    const answer = await native({ inputs: ["a"] });
    expect([answer.status, (await answer.json()).code]).toEqual([502, "upstream_error"]);
  });
});
