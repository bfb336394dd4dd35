// ElevenLabs' speech from streamed text, from a WebSocket at the edge to a model server and back.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { wavHeader } from "../../proto/wav.ts";
import { apiKey } from "../fakes/ports.ts";
import { connect, refusedUpgrade, type SocketClient } from "../fakes/socket-client.ts";
import { startTaskEdge, type TaskEdge } from "../fakes/task-edge.ts";

const path = "/v1/text-to-speech/af_bella/stream-input?model_id=org/model";
const audio = [Buffer.from("ID3 one"), Buffer.from("two")];

let tasks: TaskEdge;
const clients: SocketClient[] = [];
beforeAll(async () => {
  tasks = await startTaskEdge(undefined, (deps) => ({
    ...deps,
    socketLimits: { keyMs: 100, checkMs: 20, maxStrangerMessageBytes: 4096 },
  }));
});
beforeEach(() => {
  tasks.offer({});
  tasks.engine.answer({ contentType: "audio/mpeg", pieces: audio });
});
afterEach(async () => {
  for (const client of clients.splice(0)) {
    client.ws.terminate();
    await client.closed;
  }
});
afterAll(() => tasks.close());

async function open(at = path, options: Parameters<typeof connect>[1] = {}): Promise<SocketClient> {
  const client = await connect(tasks.edge.url + at, options);
  clients.push(client);
  return client;
}

const spoken = (client: SocketClient) =>
  Buffer.concat(client.messages.map(({ audio: part }) => Buffer.from(part ?? "", "base64"))).toString();
const since = (count: number) =>
  tasks.engine.requests.slice(count).map(({ body }) => JSON.parse(body.toString()).input as string);
const settled = () =>
  tasks.edge.budgets.holds.reduce((sum, { end }) => sum + (end?.how === "settled" ? end.cost : 0n), 0n);

const sentence = "This is a sentence of exactly fifty characters, so. ";

describe("a session of streamed text", () => {
  it("speaks its text in pieces, billed by the character like the same text over HTTP", async () => {
    const before = tasks.engine.requests.length;
    const client = await open();
    client.send({ text: " ", voice_settings: { stability: 0.5, speed: 1.5 }, try_trigger_generation: true });
    for (let i = 0; i < 3; i += 1) for (const word of sentence.match(/\S+\s/g) ?? []) client.send({ text: word });
    client.send({ text: "The end" });
    client.send({ text: "" });
    expect(await client.closed).toEqual({ code: 1000, reason: "" });
    const pieces = since(before);
    expect(pieces).toEqual([`${sentence}${sentence}`.trim(), `${sentence}The end`]);
    expect(client.messages.at(-1)).toEqual({
      audio: null,
      isFinal: true,
      normalizedAlignment: null,
      alignment: null,
    });
    expect(spoken(client)).toBe(Buffer.concat([...audio, ...audio]).toString());
    expect(tasks.askedJson()).toMatchObject({ voice: "af_bella", response_format: "mp3", speed: 1.5 });
    expect(settled()).toBe(BigInt(pieces.join("").length) * 800n);
  });

  it("speaks at a flush, for `try_trigger_generation`, and each message with `auto_mode`", async () => {
    const before = tasks.engine.requests.length;
    const flushed = await open();
    flushed.send({ text: "Short ", flush: true });
    await flushed.find(({ audio: part }) => part);
    flushed.send({ text: sentence, try_trigger_generation: true });
    await vi.waitFor(() => expect(since(before)).toEqual(["Short", sentence.trim()]));
    const auto = await open(`${path}&auto_mode=true&output_format=pcm_24000&language_code=EN`);
    auto.send({ text: "One. " });
    auto.send({ text: "Two. " });
    await vi.waitFor(() => expect(since(before).slice(2)).toEqual(["One.", "Two."]));
    expect(tasks.askedJson()).toMatchObject({ response_format: "pcm", language: "en" });
  });

  it("sends one WAV file for all pieces, and the formats of telephony", async () => {
    const wav = await open(`${path}&auto_mode=true&output_format=wav_24000`);
    wav.send({ text: "One. " });
    wav.send({ text: "Two. " });
    wav.send({ text: "" });
    await wav.closed;
    expect(tasks.askedJson()).toMatchObject({ response_format: "pcm" });
    const bytes = Buffer.concat(wav.messages.map(({ audio: part }) => Buffer.from(part ?? "", "base64")));
    expect(bytes).toEqual(Buffer.concat([wavHeader(24_000), ...audio, ...audio]));
    const phone = await open(`${path}&output_format=ulaw_8000`);
    phone.send({ text: "Hello" });
    phone.send({ text: "" });
    await phone.closed;
    expect(tasks.askedJson()).toMatchObject({ response_format: "ulaw" });
  });

  it("follows the schedule of the client, and ends with what cannot be spoken unbilled", async () => {
    const before = tasks.engine.requests.length;
    const client = await open();
    client.send({ text: " ", generation_config: { chunk_length_schedule: [50] } });
    client.send({ text: `${sentence}${sentence}` });
    client.send({ text: "... " });
    client.send({ text: "" });
    await client.closed;
    expect(since(before)).toEqual([`${sentence}${sentence}`.trim()]);
  });

  it("takes the key from the first message", async () => {
    for (const key of [{ xi_api_key: apiKey }, { authorization: `Bearer ${apiKey}` }]) {
      const client = await open(path, { headers: {} });
      client.send({ text: " ", ...key });
      client.send({ text: "Hello" });
      client.send({ text: "" });
      expect((await client.closed).code).toBe(1000);
      expect(spoken(client)).toBe(Buffer.concat(audio).toString());
    }
  });

  it.each([
    ["no key in the first message", { text: " " }],
    ["a wrong key in the first message", { text: " ", xi_api_key: "stk_wrong" }],
    ["no message in time", undefined],
  ])("ends with %s", async (_, message) => {
    const client = await open(path, { headers: {} });
    if (message) client.send(message);
    expect(await client.closed).toEqual({ code: 1008, reason: "invalid_api_key" });
    expect(client.messages).toEqual([expect.objectContaining({ error: "invalid_api_key", code: 1008 })]);
  });

  it("closes a connection without a key for a smaller frame than one with a key", async () => {
    const stranger = await open(path, { headers: {} });
    stranger.send({ text: "a".repeat(5000), xi_api_key: apiKey });
    expect((await stranger.closed).code).toBe(1009);
    const known = await open();
    known.send({ text: `${"a".repeat(5000)} ` });
    await known.find(({ audio: part }) => part);
  });

  it.each([
    ["no JSON", "{", "json_invalid"],
    ["a text that is none", '{"text":1}', "validation_error"],
    ["a schedule out of bounds", '{"text":" ","generation_config":{"chunk_length_schedule":[1]}}', "validation_error"],
  ])("ends with a message about %s", async (_, text, code) => {
    const client = await open();
    client.ws.send(text);
    expect(await client.closed).toEqual({ code: 1008, reason: code });
    expect(client.messages).toEqual([{ message: expect.any(String), error: code, code: 1008 }]);
  });

  it("ends with the reason when a piece is refused", async () => {
    const { budgets } = tasks.edge;
    const before = budgets.available;
    budgets.available = 0n as typeof before;
    const client = await open();
    client.send({ text: "Hello" });
    client.send({ text: "" });
    expect(await client.closed).toEqual({ code: 1008, reason: "insufficient_quota" });
    budgets.available = before;
  });

  it("ends when no text arrives in time", async () => {
    const client = await open(`${path}&inactivity_timeout=1`);
    expect(await client.closed).toEqual({ code: 1008, reason: "input_timeout_exceeded" });
  });

  it("stops the engine and bills as over HTTP when the client hangs up during a piece", async () => {
    tasks.engine.answer({ contentType: "audio/mpeg", pieces: audio, pieceMs: 60_000, usage: { characters: 5 } });
    const before = tasks.engine.aborted;
    const client = await open();
    client.send({ text: "Hello", flush: true });
    await vi.waitFor(() => expect(tasks.edge.budgets.holds).toHaveLength(1));
    await vi.waitFor(() => expect(tasks.engine.requests.at(-1)?.body.toString()).toContain("Hello"));
    client.ws.terminate();
    await vi.waitFor(() => expect(tasks.engine.aborted).toBe(before + 1));
    await vi.waitFor(() => expect(tasks.lastHold().end).toEqual({ how: "waits", attempt: 1 }));
  });

  it("pauses the engine for a client that does not read", async () => {
    const piece = Buffer.alloc(256 * 1024, 1);
    tasks.engine.answer({ contentType: "audio/mpeg", pieces: Array.from({ length: 200 }, () => piece) });
    const client = await open();
    client.ws.pause();
    client.send({ text: "Hello", flush: true });
    await vi.waitFor(() => expect(tasks.edge.budgets.holds).toHaveLength(1));
    client.ws.resume();
    client.send({ text: "" });
    expect((await client.closed).code).toBe(1000);
    expect(spoken(client).length).toBe(200 * piece.length);
  });

  it("takes ten thousand tiny messages", async () => {
    const before = tasks.engine.requests.length;
    const client = await open();
    for (let i = 0; i < 10_000; i += 1) client.send({ text: "a " });
    client.send({ text: "" });
    expect((await client.closed).code).toBe(1000);
    expect(since(before).join(" ").replaceAll(" ", "")).toBe("a".repeat(10_000));
  });
});

describe("the upgrade to a session of streamed text", () => {
  it.each([
    ["a wrong key", { headers: { "xi-api-key": "stk_wrong" } }, path, 401, "invalid_api_key"],
    ["an unknown format", {}, `${path}&output_format=aiff_8000`, 422, "output_format"],
    ["a format whose pieces cannot be joined", {}, `${path}&output_format=flac`, 422, "output_format"],
    ["a language that is none", {}, `${path}&language_code=english`, 422, "language_code"],
    ["a timeout out of bounds", {}, `${path}&inactivity_timeout=181`, 422, "inactivity_timeout"],
  ])("is refused with %s", async (_, options, at, status, word) => {
    const { status: refused, body } = await refusedUpgrade(tasks.edge.url + at, options);
    expect(refused).toBe(status);
    expect(JSON.stringify(body.detail)).toContain(word);
  });
});
