// Tasks other than text from the edge to a model server and back: what the engine is sent, what the client gets, what it
// costs and what was held for it.

import OpenAI, { toFile } from "openai";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { wavHeader } from "../../proto/wav.ts";
import { apiKey } from "../fakes/ports.ts";
import { form, startTaskEdge, type TaskEdge, wav } from "../fakes/task-edge.ts";

let tasks: TaskEdge;
let client: OpenAI;
beforeAll(async () => {
  tasks = await startTaskEdge();
  client = new OpenAI({ apiKey, baseURL: `${tasks.edge.url}/v1/openai`, maxRetries: 0 });
});
beforeEach(() => tasks.offer({}));
afterAll(() => tasks.close());

describe("embeddings", () => {
  const vectors = (usage: object = { prompt_tokens: 5, total_tokens: 5 }) =>
    tasks.json({
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
    expect(tasks.asked().path).toBe("/v1/embeddings");
    expect(tasks.askedJson()).toEqual({ model: "as-served", input: ["a text", "another"], encoding_format: "float" });
    // 5 tokens at 20 nano-USD.
    expect(tasks.settled()).toBe(100n);
  });

  it("say what they cost in their usage", async () => {
    vectors();
    const body = await (await tasks.edge.post("/v1/embeddings", { model: "org/model", input: "x" })).json();
    expect(body.usage).toMatchObject({ prompt_tokens: 5, estimated_cost: 0.0000001 });
  });

  it("of token ids are taken as they are", async () => {
    vectors();
    const answer = await tasks.edge.post("/v1/compat/embeddings", {
      model: "org/model",
      input: [[1, 2, 3], [4]],
      dimensions: 64,
    });
    expect(answer.status).toBe(200);
    expect(tasks.askedJson()).toMatchObject({ input: [[1, 2, 3], [4]], dimensions: 64 });
  });

  it.each([
    [{ input: [] }, "input"],
    [{ input: Array.from({ length: 1025 }, () => "x") }, "input"],
    [{ input: "x", dimensions: 31 }, "dimensions"],
    [{ input: "x", encoding_format: "hex" }, "encoding_format"],
    [{}, "input"],
  ])("out of bounds are refused with the field (%#)", async (change, field) => {
    const answer = await tasks.edge.post("/v1/compat/embeddings", { model: "org/model", ...change });
    const body = await answer.json();
    expect([answer.status, body.detail[0].loc[1]]).toEqual([422, field]);
    expect(body.error.type).toBe("invalid_request_error");
  });
});

describe("speech", () => {
  const audio = [Buffer.from("RIFF one"), Buffer.from("two"), Buffer.from("three")];
  beforeEach(() => tasks.engine.answer({ contentType: "audio/mpeg", pieces: audio }));

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
    expect(tasks.askedJson()).toEqual({
      model: "as-served",
      input: "Good morning 🙂",
      voice: "af_bella",
      response_format: "mp3",
      speed: 1.5,
    });
    // 14 characters at 800 nano-USD; the hold was no less.
    expect(tasks.settled()).toBe(11_200n);
    expect(tasks.lastHold().request.full).toBeGreaterThanOrEqual(11_200n);
    expect(tasks.lastHold().request.full).toBeLessThan(11_300n);
  });

  it("arrives as events when asked, which hold the same audio and its cost", async () => {
    const body = { model: "org/model", input: "Good morning 🙂", voice: "af_bella", stream_format: "sse" };
    const answer = await tasks.edge.post("/v1/audio/speech", body);
    expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const events = (await answer.text())
      .trimEnd()
      .split("\n\n")
      .map((frame) => JSON.parse(frame.slice("data: ".length)));
    expect(events.at(-1)).toEqual({
      type: "speech.audio.done",
      usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0, characters: 14, estimated_cost: 0.0000112 },
    });
    const deltas = events.slice(0, -1);
    expect(new Set(deltas.map(({ type }) => type))).toEqual(new Set(["speech.audio.delta"]));
    expect(Buffer.concat(deltas.map(({ audio: part }) => Buffer.from(part, "base64")))).toEqual(Buffer.concat(audio));
    expect(tasks.askedJson()).not.toHaveProperty("stream_format");
    expect(tasks.settled()).toBe(11_200n);
    const wrong = await tasks.edge.post("/v1/audio/speech", { ...body, stream_format: "websocket" });
    expect(wrong.status).toBe(422);
  });

  it("is not begun without the money for all of it", async () => {
    const before = tasks.edge.budgets.available;
    tasks.edge.budgets.available = 5_000n as typeof before;
    const answer = await tasks.edge.post("/v1/audio/speech", { model: "org/model", input: "Good morning everybody" });
    tasks.edge.budgets.available = before;
    expect([answer.status, (await answer.json()).error.code]).toEqual([402, "insufficient_quota"]);
  });

  it("has ElevenLabs' path: voice in it, codes of formats, its headers, and the query before the body", async () => {
    const answer = await tasks.edge.post("/v1/text-to-speech/af_bella/stream?output_format=mp3_44100_128", {
      text: "Hi",
      model_id: "org/model",
      output_format: "wav",
      language_code: "EN",
    });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toBe(audio.join(""));
    expect(tasks.askedJson()).toEqual({
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
    const answer = await tasks.edge.post("/v1/text-to-speech/af_bella", { text: "Hi", model_id: "org/model" });
    expect(answer.headers.get("content-length")).toBe(String(Buffer.concat(audio).length));
    expect(await answer.text()).toBe(audio.join(""));
  });

  it("in one piece says in a wav how long it is; a stream cannot", async () => {
    const made = { contentType: "audio/wav", pieces: [wavHeader(24_000), Buffer.alloc(10)] };
    const lengthIn = async (path: string) => {
      tasks.engine.answer(made);
      const answer = await tasks.edge.post(path, { text: "Hi", model_id: "org/model" });
      return Buffer.from(await answer.arrayBuffer()).readUInt32LE(40);
    };
    expect(await lengthIn("/v1/text-to-speech/af_bella")).toBe(10);
    expect(await lengthIn("/v1/text-to-speech/af_bella/stream")).toBe(0xffffffff);
  });

  it("is spoken by the model whose only voice was asked for", async () => {
    tasks.offer({ task: "text-to-speech" });
    const { models } = tasks.edge.models;
    const [kokoro] = models as [(typeof models)[number]];
    const piper = { ...kokoro, name: "rhasspy/piper-en_US-joe-medium", servedName: "piper" };
    tasks.edge.models.models = [kokoro, piper];
    await tasks.edge.post("/v1/text-to-speech/en_US-joe-medium", { text: "Hi" });
    expect(tasks.askedJson()).toMatchObject({ model: "piper", voice: "en_US-joe-medium" });
    await tasks.edge.post("/v1/text-to-speech/af_bella", { text: "Hi" });
    expect(tasks.askedJson()).toMatchObject({ model: "as-served", voice: "af_bella" });
  });

  it("refuses as ElevenLabs' clients read it", async () => {
    const unknown = await tasks.edge.post("/v1/text-to-speech/af_bella", { text: "Hi" });
    expect([unknown.status, (await unknown.json()).detail.status]).toEqual([404, "model_not_found"]);
    const format = await tasks.edge.post("/v1/text-to-speech/af_bella", {
      text: "Hi",
      model_id: "org/model",
      output_format: "aiff_8000",
    });
    expect([format.status, (await format.json()).detail[0].loc]).toEqual([422, ["body", "output_format"]]);
    const asked = await tasks.edge.post("/v1/text-to-speech/af_bella?output_format=aiff_8000", { text: "Hi" });
    expect([asked.status, (await asked.json()).detail[0].loc]).toEqual([422, ["query", "output_format"]]);
    const empty = await tasks.edge.post("/v1/text-to-speech/af_bella", { model_id: "org/model" });
    expect([empty.status, (await empty.json()).detail[0]]).toEqual([
      422,
      { loc: ["body", "text"], msg: "Field required", type: "missing" },
    ]);
  });
});

describe("transcriptions", () => {
  it("of the official client reach the engine as its form, and are billed by what was heard", async () => {
    tasks.json({ text: "Hello World", usage: { type: "duration", seconds: 2 } });
    const answer = await client.audio.transcriptions.create({
      model: "org/model",
      file: await toFile(wav(3), "said.wav", { type: "audio/wav" }),
      language: "en",
      timestamp_granularities: ["word"],
      response_format: "verbose_json",
    });
    expect(answer.text).toBe("Hello World");
    expect(tasks.asked().path).toBe("/v1/audio/transcriptions");
    const sent = await tasks.askedForm();
    expect(sent.get("model")).toBe("as-served");
    expect(sent.get("language")).toBe("en");
    expect(sent.getAll("timestamp_granularities[]")).toEqual(["word"]);
    const file = sent.get("file") as File;
    expect([file.name, file.type, file.size]).toEqual(["said.wav", "audio/wav", wav(3).length]);
    // 2 s of 3 s that were held: USD 0.1 per 1000 s.
    expect(tasks.settled()).toBe(200_000n);
    expect(tasks.lastHold().request.full).toBeLessThan(301_000n);
  });

  it.each(["text", "srt", "vtt"])("as %s are plain bodies, billed by the length of the file", async (format) => {
    tasks.engine.answer({ contentType: "text/plain; charset=utf-8", pieces: ["1\n00:00 --> 00:01\nHi\n"] });
    const body = form({ file: new Blob([wav(1)]), model: "org/model", response_format: format }, { file: "a.wav" });
    const answer = await tasks.send("/v1/audio/transcriptions", body);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/plain; charset=utf-8"]);
    expect(await answer.text()).toContain("Hi");
    expect(tasks.settled()).toBe(100_000n);
  });

  describe("with `stream`", () => {
    const ask = async () =>
      client.audio.transcriptions.create({
        model: "org/model",
        file: await toFile(wav(3), "said.wav", { type: "audio/wav" }),
        response_format: "text",
        stream: true,
      });
    const frame = (event: object) => `data: ${JSON.stringify(event)}\n\n`;
    const own = [
      ...["Hello", " World"].map((delta) => frame({ type: "transcript.text.delta", delta })),
      frame({ type: "transcript.text.done", text: "Hello World" }),
    ];
    const chunk = (content: string) => frame({ object: "transcription.chunk", choices: [{ delta: { content } }] });
    const vllm = [chunk(" Hello"), chunk(" World"), "data: [DONE]\n\n"];

    it.each([
      ["our runtime", { contentType: "text/event-stream", pieces: own, pieceMs: 5 }],
      ["vLLM", { contentType: "text/event-stream", pieces: vllm }],
    ])("arrive at the official client as %s sends their parts, billed as without", async (_, script) => {
      tasks.engine.answer({ ...script, trailers: { "x-stoker-units": "audio_ms=2000" } });
      const events = [];
      for await (const event of await ask()) events.push(event);
      const usage = { type: "duration", seconds: 2, estimated_cost: 0.0002 };
      expect(events).toEqual([
        { type: "transcript.text.delta", delta: "Hello" },
        { type: "transcript.text.delta", delta: " World" },
        { type: "transcript.text.done", text: "Hello World", usage },
      ]);
      const sent = await tasks.askedForm();
      expect([sent.get("stream"), sent.get("response_format")]).toEqual(["true", "json"]);
      expect(tasks.settled()).toBe(200_000n);
    });

    it("arrive in one part from an engine that does not stream", async () => {
      tasks.json({ text: "Hello World", usage: { type: "duration", seconds: 2 } });
      const events = [];
      for await (const event of await ask()) events.push(event);
      expect(events.map((event) => ("text" in event ? event.text : ""))).toEqual(["", "Hello World"]);
      expect(tasks.settled()).toBe(200_000n);
    });

    it("cost nothing when the engine reports an error instead of the rest", async () => {
      const pieces = [vllm[0] as string, frame({ error: { message: "out of memory", code: 500 } }), "data: [DONE]\n\n"];
      tasks.engine.answer({ contentType: "text/event-stream", pieces, pieceMs: 5 });
      const stream = await ask();
      const read = async () => {
        for await (const event of stream) expect(event.type).toBe("transcript.text.delta");
      };
      await expect(read()).rejects.toThrow("out of memory");
      const fields = { file: new Blob([wav(1)]), model: "org/model", stream: "true" };
      const answer = await tasks.send("/v1/audio/transcriptions", form(fields, { file: "a.wav" }));
      expect(await answer.text()).toContain("out of memory");
      expect(tasks.settled()).toBe(0n);
    });

    it("reach the client before the engine knows the rest", async () => {
      tasks.engine.answer({ contentType: "text/event-stream", pieces: own.slice(0, 1), breaks: true });
      const stream = await ask();
      const events: unknown[] = [];
      const read = async () => {
        for await (const event of stream) events.push(event);
      };
      await expect(read()).rejects.toThrow(/broke|lost|failed|again/i);
      expect(events).toEqual([{ type: "transcript.text.delta", delta: "Hello" }]);
    });

    it("have no times: srt, vtt and verbose_json are refused", async () => {
      for (const format of ["srt", "vtt", "verbose_json"]) {
        const fields = { file: new Blob([wav(1)]), model: "org/model", response_format: format, stream: "true" };
        const answer = await tasks.send("/v1/audio/transcriptions", form(fields, { file: "a.wav" }));
        expect([answer.status, (await answer.json()).error.param]).toEqual([422, "response_format"]);
      }
    });
  });

  it("in English go to the engine's other path", async () => {
    tasks.json({ text: "Hello" });
    await tasks.send("/v1/audio/translations", form({ file: new Blob([wav(1)]), model: "org/model" }));
    expect(tasks.asked().path).toBe("/v1/audio/translations");
  });

  it("hold for as long as compressed audio can be", async () => {
    tasks.json({ text: "Hello", usage: { seconds: 1 } });
    await tasks.send(
      "/v1/audio/transcriptions",
      form({ file: new Blob([Buffer.alloc(10_000, 1)]), model: "org/model" }),
    );
    // 10 s at 8 kbit/s.
    expect(tasks.lastHold().request.full).toBeGreaterThanOrEqual(1_000_000n);
    expect(tasks.settled()).toBe(100_000n);
  });

  it("refuse what is no file, and a body above the limit with the limit", async () => {
    const text = await tasks.send("/v1/audio/transcriptions", form({ file: "said.wav", model: "org/model" }));
    expect([text.status, (await text.json()).detail[0].loc]).toEqual([422, ["body", "file"]]);
    const none = await tasks.send("/v1/audio/transcriptions", form({ model: "org/model" }));
    expect([none.status, (await none.json()).detail[0].type]).toEqual([422, "missing"]);
    const large = form({ file: new Blob([Buffer.alloc(51 * 1024 * 1024)]), model: "org/model" });
    const answer = await tasks.send("/v1/audio/transcriptions", large);
    expect([answer.status, (await answer.json()).error.message]).toEqual([413, expect.stringContaining("50 MiB")]);
  });
});

describe("images", () => {
  const png = Buffer.from("picture").toString("base64");
  beforeEach(() => tasks.json({ created: 1, data: [{ b64_json: png }, { b64_json: png }] }));

  it("come to the official client, held and billed by number and size", async () => {
    const answer = await client.images.generate({ model: "org/model", prompt: "a cat", n: 2, size: "512x512" });
    expect(answer.data?.map(({ b64_json }) => b64_json)).toEqual([png, png]);
    expect(tasks.askedJson()).toEqual({
      model: "as-served",
      prompt: "a cat",
      n: 2,
      size: "512x512",
      response_format: "b64_json",
    });
    // Two quarters of USD 0.009; the prompt's tokens were held and not counted.
    expect(tasks.settled()).toBe(4_500_000n);
  });

  it.each([
    ["leaves both out", {}, { revised_prompt: null, url: null }],
    ["revises the prompt", { revised_prompt: 'a "b64_json": cat' }, { revised_prompt: 'a "b64_json": cat', url: null }],
    ["gives both", { url: null, revised_prompt: "a cat" }, { url: null, revised_prompt: "a cat" }],
  ])("have revised_prompt and url, null where the engine has none: one that %s", async (_, given, shown) => {
    const usage = { input_tokens: 3, output_tokens: 0 };
    const data = [
      { b64_json: png, ...given },
      { ...given, b64_json: png },
    ];
    tasks.json({ created: 1, data, usage });
    const answer = await client.images.generate({ model: "org/model", prompt: "a cat", n: 2 });
    expect(answer).toMatchObject({ created: 1, usage });
    expect(answer.data).toEqual(data.map(() => ({ b64_json: png, ...shown })));
    expect(tasks.settled()).toBe(18_000_060n);
  });

  it("are edited and varied by forms", async () => {
    const picture = await toFile(Buffer.from("png"), "cat.png", { type: "image/png" });
    await client.images.edit({ model: "org/model", image: [picture, picture], prompt: "a hat", size: "1024x1024" });
    expect(tasks.asked().path).toBe("/v1/images/edits");
    const sent = await tasks.askedForm();
    expect([sent.get("model"), sent.get("prompt"), sent.getAll("image").length]).toEqual(["as-served", "a hat", 2]);
    await client.images.createVariation({ model: "org/model", image: picture, n: 2 });
    expect(tasks.asked().path).toBe("/v1/images/variations");
  });

  const wrapped = { model: "org/model", prompt: "a hat", n: 2 };
  const file = new Blob(["png"], { type: "image/png" });
  it.each([
    ["as JSON, its picture a data URI", { inp: JSON.stringify({ ...wrapped, image: `data:image/png;base64,${png}` }) }],
    [
      "as JSON beside a flat picture",
      { inp: JSON.stringify({ ...wrapped, prompt: "no" }), prompt: "a hat", image: file },
    ],
    ["field by field", { "inp[model]": "org/model", "inp.prompt": "a hat", "inp[n]": "2", "inp[image]": file }],
  ])("are edited by fields wrapped in the part inp: %s", async (_, parts) => {
    const answer = await tasks.send("/v1/images/edits", form(parts));
    expect(answer.status, await answer.text()).toBe(200);
    const sent = await tasks.askedForm();
    expect([sent.get("prompt"), sent.get("n"), sent.getAll("image").length]).toEqual(["a hat", "2", 1]);
    expect(sent.get("image")).toBeInstanceOf(Blob);
  });

  it("whose wrapped picture is neither file nor data URI are refused by name", async () => {
    const inp = JSON.stringify({ ...wrapped, image: "https://example.com/a.png" });
    const answer = await tasks.send("/v1/images/edits", form({ inp }));
    expect([answer.status, (await answer.json()).detail[0].loc]).toEqual([422, ["body", "image"]]);
  });

  it("whose mask is too large are refused with the limit, and a variation is of one picture", async () => {
    const large = form({ ...wrapped, n: "2", image: file, mask: new Blob([Buffer.alloc(4 * 1024 * 1024 + 1)]) });
    const answer = await tasks.send("/v1/images/edits", large);
    expect([answer.status, (await answer.json()).error]).toEqual([
      413,
      expect.objectContaining({ message: expect.stringContaining("`mask` must be at most 4 MiB"), param: "mask" }),
    ]);
    const two = form({ model: "org/model", image: file });
    two.append("image", file, "b.png");
    const refused = await tasks.send("/v1/images/variations", two);
    expect([refused.status, (await refused.json()).detail[0].loc]).toEqual([422, ["body", "image"]]);
  });

  it.each([
    [{ response_format: "url" }, "response_format"],
    [{ n: 5 }, "n"],
    [{ size: "huge" }, "size"],
  ])("refuse %o", async (change, field) => {
    const answer = await tasks.edge.post("/v1/images/generations", { model: "org/model", prompt: "a cat", ...change });
    expect([answer.status, (await answer.json()).detail[0].loc[1]]).toEqual([422, field]);
  });
});
