// Tasks other than text from the edge to a model server and back: what the engine is sent, what the client gets, what it
// costs and what was held for it.
import OpenAI, { toFile } from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ServedModel } from "../../control-plane/catalog/served-model.ts";
import type { InstanceId } from "../../proto/ids.ts";
import { type DataPath, instanceId, startDataPath } from "../fakes/data-path.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey, servedModel } from "../fakes/ports.ts";
import { startTaskEngine, type TaskEngine } from "../fakes/task-engine.ts";

let engine: TaskEngine;
let path: DataPath;
let edge: Edge;
let client: OpenAI;
beforeAll(async () => {
  engine = await startTaskEngine();
  path = await startDataPath(engine.origin);
  edge = await startEdge({ agents: 0 });
  edge.routes.add(`http://127.0.0.1:${path.port}`, { instanceId: instanceId as InstanceId });
  client = new OpenAI({ apiKey, baseURL: `${edge.url}/v1/openai`, maxRetries: 0 });
});
beforeEach(() => {
  offer({});
  edge.budgets.holds.length = 0;
});
afterAll(async () => {
  await edge.close();
  await path.close();
  await engine.close();
});

/** USD 0.02 per million prompt tokens, 0.8 per million characters, 0.1 per 1000 s of audio, 0.009 per image of 20 steps. */
const rates: ServedModel["rates"] = {
  input: 20_000_000n,
  cachedInput: 20_000_000n,
  output: 0n,
  units: { characters: 800_000_000n, audio: 100_000_000n, images: 9_000_000_000_000n, imageUnit: 20n * 1024n * 1024n },
};

function offer(change: Partial<ServedModel>): void {
  edge.models.models = [servedModel({ servedName: "as-served", rates, ...change })];
}

const json = (answer: object) => engine.answer({ contentType: "application/json", pieces: [JSON.stringify(answer)] });
const asked = () => engine.requests.at(-1) as TaskEngine["requests"][number];
const askedJson = () => JSON.parse(asked().body.toString());
const askedForm = () => {
  const { body, contentType } = asked();
  return new Response(new Uint8Array(body), { headers: { "content-type": contentType } }).formData();
};
const lastHold = () => edge.budgets.holds.at(-1) as Edge["budgets"]["holds"][number];
const settled = () => {
  const { end } = lastHold();
  return end?.how === "settled" ? end.cost : end;
};
const post = (at: string, body: object) => edge.post(at, body);

function form(fields: Record<string, string | Blob>, names: Record<string, string> = {}): FormData {
  const made = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    if (typeof value === "string") made.append(name, value);
    else made.append(name, value, names[name] ?? "file.bin");
  }
  return made;
}
const send = (at: string, body: FormData) =>
  fetch(edge.url + at, { method: "POST", headers: { authorization: `Bearer ${apiKey}` }, body });

/** One second of 16 kHz mono, 16 bits. */
function wav(seconds: number): Buffer<ArrayBuffer> {
  const data = Buffer.alloc(seconds * 32_000);
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + data.length, 4);
  head.write("WAVEfmt ", 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(16_000, 24);
  head.writeUInt32LE(32_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write("data", 36);
  head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
}

describe("embeddings", () => {
  const vectors = (usage: object = { prompt_tokens: 5, total_tokens: 5 }) =>
    json({
      object: "list",
      data: [{ object: "embedding", index: 0, embedding: [0.25, -0.5] }],
      model: "as-served",
      usage,
    });

  it("come to the official client, by the model's own name at the engine", async () => {
    vectors();
    const answer = await client.embeddings.create({
      model: "org/model",
      input: ["a text", "another"],
      encoding_format: "float",
    });
    expect(answer.data[0]?.embedding).toEqual([0.25, -0.5]);
    expect(asked().path).toBe("/v1/embeddings");
    expect(askedJson()).toEqual({ model: "as-served", input: ["a text", "another"], encoding_format: "float" });
    // 5 tokens at 20 nano-USD.
    expect(settled()).toBe(100n);
  });

  it("say what they cost in their usage", async () => {
    vectors();
    const body = await (await post("/v1/embeddings", { model: "org/model", input: "x" })).json();
    expect(body.usage).toMatchObject({ prompt_tokens: 5, estimated_cost: 0.0000001 });
  });

  it("of token ids are taken as they are", async () => {
    vectors();
    const answer = await post("/v1/compat/embeddings", { model: "org/model", input: [[1, 2, 3], [4]], dimensions: 64 });
    expect(answer.status).toBe(200);
    expect(askedJson()).toMatchObject({ input: [[1, 2, 3], [4]], dimensions: 64 });
  });

  it.each([
    [{ input: [] }, "input"],
    [{ input: Array.from({ length: 1025 }, () => "x") }, "input"],
    [{ input: "x", dimensions: 31 }, "dimensions"],
    [{ input: "x", encoding_format: "hex" }, "encoding_format"],
    [{}, "input"],
  ])("out of bounds are refused with the field (%#)", async (change, field) => {
    const answer = await post("/v1/compat/embeddings", { model: "org/model", ...change });
    const body = await answer.json();
    expect([answer.status, body.detail[0].loc[1]]).toEqual([422, field]);
    expect(body.error.type).toBe("invalid_request_error");
  });
});

describe("speech", () => {
  const audio = [Buffer.from("RIFF one"), Buffer.from("two"), Buffer.from("three")];
  beforeEach(() => engine.answer({ contentType: "audio/mpeg", pieces: audio }));

  it("comes to the official client in the format it asked for, held and billed by the character", async () => {
    const answer = await client.audio.speech.create({
      model: "org/model",
      input: "Good morning 🙂",
      voice: "af_bella",
      response_format: "mp3",
      speed: 1.5,
    });
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(Buffer.concat(audio));
    expect(answer.headers.get("content-type")).toBe("audio/mpeg");
    expect(askedJson()).toEqual({
      model: "as-served",
      input: "Good morning 🙂",
      voice: "af_bella",
      response_format: "mp3",
      speed: 1.5,
    });
    // 14 characters at 800 nano-USD; the hold was no less.
    expect(settled()).toBe(11_200n);
    expect(lastHold().request.full).toBeGreaterThanOrEqual(11_200n);
    expect(lastHold().request.full).toBeLessThan(11_300n);
  });

  it("is not begun without the money for all of it", async () => {
    const before = edge.budgets.available;
    edge.budgets.available = 5_000n as typeof before;
    const answer = await post("/v1/audio/speech", { model: "org/model", input: "Good morning everybody" });
    edge.budgets.available = before;
    expect([answer.status, (await answer.json()).error.code]).toEqual([402, "insufficient_quota"]);
  });

  it("has ElevenLabs' path: voice in it, codes of formats, its headers, and the query before the body", async () => {
    const answer = await edge.post("/v1/text-to-speech/af_bella/stream?output_format=mp3_44100_128", {
      text: "Hi",
      model_id: "org/model",
      output_format: "wav",
      language_code: "EN",
    });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(audio.join(""));
    expect(askedJson()).toEqual({
      model: "as-served",
      input: "Hi",
      voice: "af_bella",
      response_format: "mp3",
      language: "en",
    });
    expect(answer.headers.get("character-cost")).toBe("2");
    expect(answer.headers.get("request-id")).toBe(answer.headers.get("x-stoker-request-id"));
    expect(answer.headers.get("content-length")).toBeNull();
  });

  it("in one piece says its length", async () => {
    const answer = await post("/v1/text-to-speech/af_bella", { text: "Hi", model_id: "org/model" });
    expect(answer.headers.get("content-length")).toBe(String(Buffer.concat(audio).length));
    expect(await answer.text()).toBe(audio.join(""));
  });

  it("refuses as ElevenLabs' clients read it", async () => {
    const unknown = await post("/v1/text-to-speech/af_bella", { text: "Hi" });
    expect([unknown.status, (await unknown.json()).detail.status]).toEqual([404, "model_not_found"]);
    const format = await post("/v1/text-to-speech/af_bella", {
      text: "Hi",
      model_id: "org/model",
      output_format: "ulaw_8000",
    });
    expect([format.status, (await format.json()).detail[0].loc]).toEqual([422, ["body", "output_format"]]);
    const empty = await post("/v1/text-to-speech/af_bella", { model_id: "org/model" });
    expect([empty.status, (await empty.json()).detail[0]]).toEqual([
      422,
      { loc: ["body", "text"], msg: "Field required", type: "missing" },
    ]);
  });
});

describe("transcriptions", () => {
  it("of the official client reach the engine as its form, and are billed by what was heard", async () => {
    json({ text: "Hello World", usage: { type: "duration", seconds: 2 } });
    const answer = await client.audio.transcriptions.create({
      model: "org/model",
      file: await toFile(wav(3), "said.wav", { type: "audio/wav" }),
      language: "en",
      timestamp_granularities: ["word"],
      response_format: "verbose_json",
    });
    expect(answer.text).toBe("Hello World");
    expect(asked().path).toBe("/v1/audio/transcriptions");
    const sent = await askedForm();
    expect(sent.get("model")).toBe("as-served");
    expect(sent.get("language")).toBe("en");
    expect(sent.getAll("timestamp_granularities[]")).toEqual(["word"]);
    const file = sent.get("file") as File;
    expect([file.name, file.type, file.size]).toEqual(["said.wav", "audio/wav", wav(3).length]);
    // 2 s of 3 s that were held: USD 0.1 per 1000 s.
    expect(settled()).toBe(200_000n);
    expect(lastHold().request.full).toBeLessThan(301_000n);
  });

  it.each(["text", "srt", "vtt"])("as %s are plain bodies, billed by the length of the file", async (format) => {
    engine.answer({ contentType: "text/plain; charset=utf-8", pieces: ["1\n00:00 --> 00:01\nHi\n"] });
    const body = form({ file: new Blob([wav(1)]), model: "org/model", response_format: format }, { file: "a.wav" });
    const answer = await send("/v1/audio/transcriptions", body);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
    expect(await answer.text()).toContain("Hi");
    expect(settled()).toBe(100_000n);
  });

  it("in English go to the engine's other path", async () => {
    json({ text: "Hello" });
    await send("/v1/audio/translations", form({ file: new Blob([wav(1)]), model: "org/model" }));
    expect(asked().path).toBe("/v1/audio/translations");
  });

  it("hold for as long as compressed audio can be", async () => {
    json({ text: "Hello", usage: { seconds: 1 } });
    await send("/v1/audio/transcriptions", form({ file: new Blob([Buffer.alloc(10_000, 1)]), model: "org/model" }));
    // 10 s at 8 kbit/s.
    expect(lastHold().request.full).toBeGreaterThanOrEqual(1_000_000n);
    expect(settled()).toBe(100_000n);
  });

  it("refuse what is no file, and a body above the limit with the limit", async () => {
    const text = await send("/v1/audio/transcriptions", form({ file: "said.wav", model: "org/model" }));
    expect([text.status, (await text.json()).detail[0].loc]).toEqual([422, ["body", "file"]]);
    const none = await send("/v1/audio/transcriptions", form({ model: "org/model" }));
    expect([none.status, (await none.json()).detail[0].type]).toEqual([422, "missing"]);
    const large = form({ file: new Blob([Buffer.alloc(51 * 1024 * 1024)]), model: "org/model" });
    const answer = await send("/v1/audio/transcriptions", large);
    expect([answer.status, (await answer.json()).error.message]).toEqual([413, expect.stringContaining("50 MiB")]);
  });
});

describe("images", () => {
  const png = Buffer.from("picture").toString("base64");
  beforeEach(() => json({ created: 1, data: [{ b64_json: png }, { b64_json: png }] }));

  it("come to the official client, held and billed by number and size", async () => {
    const answer = await client.images.generate({ model: "org/model", prompt: "a cat", n: 2, size: "512x512" });
    expect(answer.data?.map(({ b64_json }) => b64_json)).toEqual([png, png]);
    expect(askedJson()).toEqual({
      model: "as-served",
      prompt: "a cat",
      n: 2,
      size: "512x512",
      response_format: "b64_json",
    });
    // Two quarters of USD 0.009; the prompt's tokens were held and not counted.
    expect(settled()).toBe(4_500_000n);
  });

  it("are edited and varied by forms", async () => {
    const picture = await toFile(Buffer.from("png"), "cat.png", { type: "image/png" });
    await client.images.edit({ model: "org/model", image: [picture, picture], prompt: "a hat", size: "1024x1024" });
    expect(asked().path).toBe("/v1/images/edits");
    const sent = await askedForm();
    expect([sent.get("model"), sent.get("prompt"), sent.getAll("image").length]).toEqual(["as-served", "a hat", 2]);
    await client.images.createVariation({ model: "org/model", image: picture, n: 2 });
    expect(asked().path).toBe("/v1/images/variations");
  });

  it.each([
    [{ response_format: "url" }, "response_format"],
    [{ n: 5 }, "n"],
    [{ size: "huge" }, "size"],
  ])("refuse %o", async (change, field) => {
    const answer = await post("/v1/images/generations", { model: "org/model", prompt: "a cat", ...change });
    expect([answer.status, (await answer.json()).detail[0].loc[1]]).toEqual([422, field]);
  });
});

describe("native inference", () => {
  const native = (body: object) => post("/v1/inference/org/model", body);

  it("answers a text with its cost and counts", async () => {
    offer({ rates: servedModel().rates });
    json({
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
    expect(askedJson()).toMatchObject({ model: "as-served", prompt: "I have this", max_tokens: 8, temperature: 0.5 });
  });

  it("streams tokens with their ids, and the whole text at the end", async () => {
    offer({ rates: servedModel().rates });
    const frame = (text: string, id: number, finish: string | null) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, text, finish_reason: finish, logprobs: { tokens: [`token_id:${id}`], token_logprobs: [-0.5] } }] })}\n\n`;
    const usage = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 } })}\n\n`;
    engine.answer({
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
    expect(askedJson()).toMatchObject({ stream: true, logprobs: 0, return_tokens_as_token_ids: true });
  });

  it("tells a stream that broke in its own words", async () => {
    engine.answer({
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
    offer({ task: "embeddings" });
    json({ data: [{ index: 0, embedding: [1, 2] }], usage: { prompt_tokens: 3, total_tokens: 3 } });
    const body = await (await native({ inputs: ["a"], normalize: true })).json();
    expect(body).toMatchObject({
      embeddings: [[1, 2]],
      input_tokens: 3,
      inference_status: { cost: 0.00000006, tokens_input: 3 },
    });
    expect(askedJson()).toEqual({ model: "as-served", input: ["a"], normalize: true });
  });

  it("ranks documents in the order they came", async () => {
    offer({ task: "reranker" });
    json({
      results: [
        { index: 1, relevance_score: 0.9 },
        { index: 0, relevance_score: 0.1 },
      ],
    });
    const body = await (await native({ queries: ["q", "q"], documents: ["a", "b"] })).json();
    expect(body.scores).toEqual([0.1, 0.9]);
    expect(askedJson()).toEqual({ model: "as-served", query: "q", documents: ["a", "b"] });
    const uneven = await native({ queries: ["q", "r"], documents: ["a"] });
    expect([uneven.status, (await uneven.json()).detail[0].loc]).toEqual([422, ["body", "documents"]]);
  });

  it("hears a file or a data URI", async () => {
    offer({ task: "automatic-speech-recognition" });
    const said = { text: "Hi", language: "en", duration: 1, segments: [{ id: 0, start: 0, end: 1, text: "Hi" }] };
    json({ ...said, words: [{ word: "Hi", start: 0, end: 1 }] });
    const sent = await send("/v1/inference/org/model", form({ audio: new Blob([wav(1)]), chunk_level: "word" }));
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
    offer({ task: "text-to-speech" });
    engine.answer({ contentType: "audio/wav", pieces: ["RI", "FF"] });
    const body = await (await native({ text: "Hello", preset_voice: "af_bella" })).json();
    expect(body).toMatchObject({
      audio: `data:audio/wav;base64,${Buffer.from("RIFF").toString("base64")}`,
      input_character_length: 5,
      output_format: "wav",
    });
    expect(askedJson()).toMatchObject({ voice: "af_bella", response_format: "wav" });
  });

  it("paints, with sizes that came as texts", async () => {
    offer({ task: "text-to-image" });
    json({ data: [{ b64_json: "cGlj" }] });
    const body = await (
      await native({ prompt: "a cat", width: "512", height: "256", num_inference_steps: 10, seed: 4 })
    ).json();
    expect(body).toMatchObject({ images: ["data:image/png;base64,cGlj"], nsfw_content_detected: [false], seed: 4 });
    expect(askedJson()).toMatchObject({ size: "512x256", num_inference_steps: 10, seed: 4 });
    // An eighth of the pixels, half of the steps.
    expect(settled()).toBe(562_500n);
  });

  it("classifies by our own runtime's fields", async () => {
    offer({ task: "zero-shot-image-classification" });
    json({ results: [{ label: "cat", score: 0.9 }], usage: { input_tokens: 1 } });
    const body = form({
      image: new Blob([Buffer.from("png")], { type: "image/png" }),
      candidate_labels: '["cat","dog"]',
    });
    const answer = await (await send("/v1/inference/org/model", body)).json();
    expect(answer.results).toEqual([{ label: "cat", score: 0.9 }]);
    expect(answer.usage).toBeUndefined();
    expect(asked().path).toBe("/v1/infer");
    expect(askedJson()).toMatchObject({
      task: "zero-shot-image-classification",
      candidate_labels: ["cat", "dog"],
      image: expect.stringMatching(/^data:image\/png;base64,/),
    });
  });

  it("serves a deployment by its id, and refuses what it does not know", async () => {
    offer({ task: "embeddings" });
    json({ data: [{ index: 0, embedding: [1] }] });
    expect((await post(`/v1/inference/deploy/${servedModel().deployId}`, { inputs: ["a"] })).status).toBe(200);
    const unknown = await post("/v1/inference/no/such", { inputs: ["a"] });
    expect([unknown.status, (await unknown.json()).code]).toEqual([404, "model_not_found"]);
    const missing = await native({});
    expect([missing.status, (await missing.json()).detail]).toEqual([
      422,
      [{ loc: ["body", "inputs"], msg: "Field required", type: "missing" }],
    ]);
    const form = await fetch(`${edge.url}/v1/inference/org/model`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "multipart/form-data; boundary=b" },
      body: "--b\r\nbroken",
    });
    expect([form.status, (await form.json()).code]).toEqual([400, "form_invalid"]);
  });

  it("says that an engine answered something else", async () => {
    offer({ task: "embeddings" });
    json({ vectors: [] });
    const answer = await native({ inputs: ["a"] });
    expect([answer.status, (await answer.json()).code]).toEqual([502, "upstream_error"]);
  });
});
