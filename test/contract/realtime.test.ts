// OpenAI's Realtime interface for transcription, from a WebSocket at the edge to a model server and back.
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { InvalidApiKey } from "../../control-plane/accounts/errors.ts";
import type { CallerStanding } from "../../control-plane/inference/complete.ts";
import { ada, apiKey, jwtOfAda } from "../fakes/ports.ts";
import { connect, refusedUpgrade, type SocketClient } from "../fakes/socket-client.ts";
import { startTaskEdge, type TaskEdge } from "../fakes/task-edge.ts";

const path = "/v1/realtime?intent=transcription";
const rate = 24_000;
let isRevoked = false;
const standing: CallerStanding = {
  now: () => 0,
  again(caller) {
    if (isRevoked) throw new InvalidApiKey();
    return caller;
  },
};

let tasks: TaskEdge;
const clients: SocketClient[] = [];
beforeAll(async () => {
  tasks = await startTaskEdge(undefined, (deps) => ({
    ...deps,
    spine: { ...deps.spine, standing },
    corsOrigins: ["https://app.example"],
    socketLimits: { maxSessionsPerAccount: 4, checkMs: 20 },
  }));
});
beforeEach(() => {
  isRevoked = false;
  tasks.offer({});
  tasks.json({ text: "Hello World", usage: { type: "duration", seconds: 1 } });
});
afterAll(() => tasks.close());

async function open(options: Parameters<typeof connect>[1] = {}, at = path): Promise<SocketClient> {
  const client = await connect(tasks.edge.url + at, options);
  clients.push(client);
  return client;
}
beforeEach(async () => {
  for (const client of clients.splice(0)) {
    client.ws.terminate();
    await client.closed;
  }
});

const configured = (turnDetection: object | null, change: object = {}) => ({
  type: "session.update",
  session: {
    type: "transcription",
    audio: {
      input: {
        transcription: { model: "org/model", language: "en", prompt: "Names" },
        turn_detection: turnDetection,
        ...change,
      },
    },
  },
});

/** A tone, or silence, of 16-bit samples. */
function sound(seconds: number, loudness = 0, hertz = rate): Buffer {
  const samples = Buffer.alloc(Math.round(seconds * hertz) * 2);
  for (let i = 0; i < samples.length / 2; i += 1)
    samples.writeInt16LE(Math.round(Math.sin(i / 10) * loudness * 0x7fff), i * 2);
  return samples;
}
const append = (audio: Buffer) => ({ type: "input_audio_buffer.append", audio: audio.toString("base64") });
const prefix = "conversation.item.input_audio_transcription";

describe("a transcription session", () => {
  it("transcribes what the client commits, billed like the same audio over HTTP", async () => {
    const client = await open();
    const created = await client.type("session.created");
    expect(created.session).toMatchObject({
      type: "transcription",
      audio: { input: { format: { type: "audio/pcm", rate }, turn_detection: { type: "server_vad" } } },
    });
    client.send(configured(null));
    const { session } = await client.type("session.updated");
    expect(session.audio.input).toMatchObject({
      transcription: { model: "org/model", language: "en", prompt: "Names" },
      turn_detection: null,
    });
    client.send(append(sound(1.5, 0.5)));
    client.send(append(sound(0.5, 0.5)));
    client.send({ type: "input_audio_buffer.commit" });
    const completed = await client.type(`${prefix}.completed`);
    const { item_id: item } = await client.type("input_audio_buffer.committed");
    expect(completed).toMatchObject({
      item_id: item,
      content_index: 0,
      transcript: "Hello World",
      usage: { type: "duration", seconds: 1, estimated_cost: 0.0001 },
    });
    expect((await client.type(`${prefix}.delta`)).delta).toBe("Hello World");
    const sent = await tasks.askedForm();
    expect([sent.get("model"), sent.get("language"), sent.get("prompt")]).toEqual(["as-served", "en", "Names"]);
    const file = Buffer.from(await (sent.get("file") as File).arrayBuffer());
    expect(file.subarray(0, 4).toString()).toBe("RIFF");
    expect(file.readUInt32LE(24)).toBe(rate);
    expect(file.subarray(44)).toEqual(Buffer.concat([sound(1.5, 0.5), sound(0.5, 0.5)]));
    // 1 s that the engine counted, of 2 s that were held.
    expect(tasks.settled()).toBe(100_000n);
    expect(tasks.lastHold().request.full).toBe(200_000n);
  });

  it("passes the parts of a transcript on as the engine sends them", async () => {
    const frame = (event: object) => `data: ${JSON.stringify(event)}\n\n`;
    tasks.engine.answer({
      contentType: "text/event-stream",
      pieces: [
        frame({ type: "transcript.text.delta", delta: " Hello" }),
        frame({ type: "transcript.text.delta", delta: " World" }),
        frame({ type: "transcript.text.done", text: "Hello World" }),
      ],
      pieceMs: 5,
      trailers: { "x-stoker-units": "audio_ms=1000" },
    });
    const client = await open();
    client.send(configured(null));
    client.send(append(sound(1)));
    client.send({ type: "input_audio_buffer.commit" });
    expect((await client.type(`${prefix}.completed`)).transcript).toBe("Hello World");
    const deltas = client.messages.filter(({ type }) => type === `${prefix}.delta`);
    expect(deltas.map(({ delta }) => delta)).toEqual(["Hello", " World"]);
  });

  it("commits speech by itself when a pause follows, without the silence around it", async () => {
    tasks.json({ text: "Hello World" });
    const client = await open();
    client.send(configured({ type: "server_vad", silence_duration_ms: 200, prefix_padding_ms: 100 }));
    for (const piece of [sound(1), sound(0.6, 0.5), sound(0.5), sound(0.4, 0.5), sound(0.5)])
      client.send(append(piece));
    await vi.waitFor(() => {
      expect(client.types.filter((type) => type === `${prefix}.completed`)).toHaveLength(2);
    });
    const of = (type: string) => client.messages.filter((message) => message.type === `input_audio_buffer.${type}`);
    expect(of("speech_started").map(({ audio_start_ms: at }) => at)).toEqual([900, 2000]);
    expect(of("speech_stopped").map(({ audio_end_ms: at }) => at)).toEqual([1800, 2700]);
    const items = of("speech_started").map(({ item_id: item }) => item);
    expect(of("committed").map((one) => [one.previous_item_id, one.item_id])).toEqual([[null, items[0]], items]);
    const file = (await tasks.askedForm()).get("file") as File;
    expect(file.size - 44).toBe(0.7 * rate * 2);
  });

  it("takes G.711 and the former names of events and fields", async () => {
    const client = await open({ headers: { authorization: `Bearer ${apiKey}`, "openai-beta": "realtime=v1" } });
    await client.type("transcription_session.created");
    client.send({
      type: "transcription_session.update",
      session: {
        input_audio_format: "g711_ulaw",
        input_audio_transcription: { model: "org/model" },
        turn_detection: null,
      },
    });
    const { session } = await client.type("transcription_session.updated");
    expect(session).toMatchObject({ input_audio_format: "g711_ulaw", turn_detection: null });
    client.send(append(Buffer.alloc(8_000, 0xff)));
    client.send({ type: "input_audio_buffer.commit" });
    await client.type(`${prefix}.completed`);
    const file = Buffer.from(await ((await tasks.askedForm()).get("file") as File).arrayBuffer());
    expect([file.readUInt32LE(24), file.length]).toEqual([8_000, 44 + 16_000]);
    expect(client.types).toContain("conversation.item.created");
  });

  it("reports a request that is refused for its part, and goes on", async () => {
    const client = await open();
    client.send(configured(null));
    const { budgets } = tasks.edge;
    const before = budgets.available;
    budgets.available = 0n as typeof before;
    client.send(append(sound(1)));
    client.send({ type: "input_audio_buffer.commit" });
    const failed = await client.type(`${prefix}.failed`);
    budgets.available = before;
    expect(failed.error).toMatchObject({ code: "insufficient_quota", type: "invalid_request_error" });
    client.send(append(sound(1)));
    client.send({ type: "input_audio_buffer.commit" });
    expect((await client.type(`${prefix}.completed`)).item_id).not.toBe(failed.item_id);
  });

  it.each([
    ["no JSON", "{", "json_invalid"],
    ["a list", [], "json_invalid"],
    ["an unknown event", { type: "response.create", event_id: "e1" }, "unsupported_event"],
    ["audio that is no base64", { type: "input_audio_buffer.append", audio: "*" }, "invalid_audio"],
    ["half a sample", { type: "input_audio_buffer.append", audio: "AA==" }, "invalid_audio"],
    ["an empty commit", { type: "input_audio_buffer.commit" }, "input_audio_buffer_commit_empty"],
    ["another type of session", { type: "session.update", session: { type: "realtime" } }, "validation_error"],
    ["detection by meaning", configured({ type: "semantic_vad" }), "validation_error"],
  ])("answers %s with an error event and goes on", async (_, message, code) => {
    const client = await open();
    client.ws.send(typeof message === "string" ? message : JSON.stringify(message));
    const { error } = await client.type("error");
    expect(error).toMatchObject({ code, type: "invalid_request_error" });
    expect(error.event_id).toBe((message as { event_id?: string }).event_id ?? null);
    client.send({ type: "input_audio_buffer.clear" });
    await client.type("input_audio_buffer.cleared");
  });

  it("fails a part without a model", async () => {
    const client = await open();
    client.send(append(sound(1)));
    client.send({ type: "input_audio_buffer.commit" });
    expect((await client.type(`${prefix}.failed`)).error.code).toBe("model_missing");
  });

  it("bills a client that hangs up during a part as over HTTP, and stops the engine", async () => {
    tasks.engine.answer({
      contentType: "text/event-stream",
      pieces: ['data: {"type":"transcript.text.delta","delta":"Hello"}\n\n', "data: [DONE]\n\n"],
      pieceMs: 60_000,
      usage: { audio_ms: 1000 },
    });
    const client = await open();
    const before = tasks.engine.aborted;
    client.send(configured(null));
    client.send(append(sound(1)));
    client.send({ type: "input_audio_buffer.commit" });
    await client.type(`${prefix}.delta`);
    client.ws.terminate();
    await vi.waitFor(() => expect(tasks.engine.aborted).toBe(before + 1));
    await vi.waitFor(() => expect(tasks.lastHold().end).toEqual({ how: "waits", attempt: 1 }));
  });

  it("takes ten thousand tiny appends as one part", async () => {
    tasks.json({ text: "Hello World" });
    const client = await open();
    client.send(configured(null));
    for (let i = 0; i < 10_000; i += 1) client.send(append(Buffer.alloc(4)));
    client.send({ type: "input_audio_buffer.commit" });
    await client.type(`${prefix}.completed`);
    expect(((await tasks.askedForm()).get("file") as File).size).toBe(44 + 40_000);
    expect(client.types).not.toContain("error");
  });

  it("lets at most 16 parts wait and fails the others", async () => {
    tasks.engine.answer({ contentType: "application/json", pieces: ['{"text":', '"Hi"}'], pieceMs: 200 });
    const client = await open();
    client.send(configured(null));
    for (let i = 0; i < 18; i += 1) {
      client.send(append(sound(0.1)));
      client.send({ type: "input_audio_buffer.commit" });
    }
    expect((await client.type(`${prefix}.failed`)).error).toMatchObject({
      code: "too_many_segments",
      type: "rate_limit_error",
    });
  });

  it("closes the connection for frames that are too large or binary", async () => {
    const large = await open();
    large.ws.send(JSON.stringify(append(Buffer.alloc(2 * 1024 * 1024))));
    expect((await large.closed).code).toBe(1009);
    const binary = await open();
    binary.ws.send(Buffer.alloc(10));
    expect((await binary.closed).code).toBe(1003);
  });

  it("ends when the key is revoked", async () => {
    const client = await open();
    await client.type("session.created");
    isRevoked = true;
    expect(await client.closed).toEqual({ code: 1008, reason: "invalid_api_key" });
  });
});

describe("the upgrade to a session", () => {
  it.each(["/v1/realtime", "/v1/openai/realtime", "/v1/compat/realtime"])("has the path %s", async (at) => {
    const client = await open({}, `${at}?model=org/model`);
    expect((await client.type("session.created")).session.audio.input.transcription.model).toBe("org/model");
  });

  it("takes the key of a browser from a subprotocol, and a scoped token without its prefix", async () => {
    tasks.edge.authenticator.callers.set("jwt:eyJh.eyJz.c2ln", { ...ada, via: "jwt", role: "inference" });
    for (const key of [apiKey, "eyJh.eyJz.c2ln"]) {
      const client = await open({ headers: {}, protocols: ["realtime", `openai-insecure-api-key.${key}`] });
      expect(client.ws.protocol).toBe("realtime");
      await client.type("session.created");
    }
  });

  it("takes an ephemeral key, whose model is the session's", async () => {
    const models = new Set(["org/model"]);
    tasks.edge.authenticator.callers.set("jwt:eyJh.eyJz.ZWs", { ...ada, via: "jwt", role: "realtime", models });
    const key = "ek_eyJh.eyJz.ZWs";
    for (const options of [
      { headers: {}, protocols: ["realtime", `openai-insecure-api-key.${key}`] },
      { headers: { authorization: `Bearer ${key}` } },
    ]) {
      const client = await open(options, "/v1/realtime");
      expect((await client.type("session.created")).session.audio.input.transcription.model).toBe("org/model");
    }
  });

  it.each([
    ["no key", { headers: {} }, path, 401, "invalid_api_key"],
    ["a wrong key", { headers: { authorization: "Bearer stk_wrong" } }, path, 401, "invalid_api_key"],
    [
      "a wrong subprotocol",
      { headers: {}, protocols: ["realtime", "openai-insecure-api-key.x"] },
      path,
      401,
      "invalid_api_key",
    ],
    ["a page of another origin", { origin: "https://evil.example" }, path, 403, "origin_not_allowed"],
    ["another intent", {}, "/v1/realtime?intent=conversation", 400, "unsupported_value"],
    ["a call", {}, "/v1/realtime?call_id=1", 400, "unsupported_value"],
  ])("is refused with %s", async (_, options, at, status, code) => {
    const refused = await refusedUpgrade(tasks.edge.url + at, options);
    expect([refused.status, refused.body.error.code]).toEqual([status, code]);
    expect(refused.headers["x-request-id"]).toMatch(/^\w+$/);
  });

  it("is refused for a role that may not use inference", async () => {
    tasks.edge.authenticator.callers.set("stk_reader", { ...ada, role: "read" });
    const refused = await refusedUpgrade(tasks.edge.url + path, { headers: { authorization: "Bearer stk_reader" } });
    expect(refused.status).toBe(403);
  });

  it("is accepted from an allowed origin, and from the origin of the server", async () => {
    await open({ origin: "https://app.example" });
    await open({ origin: tasks.edge.url });
  });

  it("is refused above the account's sessions, until one closes", async () => {
    const [first] = await Promise.all([open(), open(), open(), open()]);
    const refused = await refusedUpgrade(tasks.edge.url + path);
    expect([refused.status, refused.body.error.code]).toEqual([429, "too_many_sessions"]);
    expect(refused.headers["retry-after"]).toBe("5");
    first?.ws.close();
    await first?.closed;
    await vi.waitFor(() => open());
  });

  it("is requested by its header: a proxy that drops it gets 426 with the cause", async () => {
    const answer = await fetch(tasks.edge.url + path, { headers: { authorization: `Bearer ${apiKey}` } });
    expect([answer.status, answer.headers.get("upgrade")]).toEqual([426, "websocket"]);
    expect((await answer.json()).error).toMatchObject({
      code: "upgrade_required",
      message: expect.stringMatching(/proxy/),
    });
  });

  it("lets a scoped token use its models only", async () => {
    const client = await open({ headers: { authorization: `Bearer ${jwtOfAda}` } });
    client.send(configured(null));
    client.send(append(sound(1)));
    client.send({ type: "input_audio_buffer.commit" });
    expect((await client.type(`${prefix}.failed`)).error.code).toBe("model_not_allowed");
  });
});

describe("an edge that stops", () => {
  it("lets the running part end, then closes with 1001, and refuses new sessions", async () => {
    const stopping = await startTaskEdge();
    stopping.offer({});
    stopping.engine.answer({ contentType: "application/json", pieces: ['{"text":', '"Hi"}'], pieceMs: 100 });
    const idle = await connect(stopping.edge.url + path);
    const busy = await connect(stopping.edge.url + path);
    busy.send(configured(null));
    busy.send(append(sound(1)));
    busy.send({ type: "input_audio_buffer.commit" });
    await vi.waitFor(() => expect(stopping.engine.requests).toHaveLength(1));
    const closing = stopping.close();
    expect(await idle.closed).toEqual({ code: 1001, reason: "restarting" });
    expect((await busy.type(`${prefix}.completed`)).transcript).toBe("Hi");
    expect(await busy.closed).toEqual({ code: 1001, reason: "restarting" });
    await closing;
  });
});
