// Every task that is not text: what its record says, where the figures come from, and that its bytes pass unchanged.

import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TicketUnits } from "../../../proto/ticket.ts";
import { type Carrier, call, carriers, type DataPath, openCall, startDataPath } from "../../fakes/data-path.ts";
import { startTaskEngine, type TaskEngine } from "../../fakes/task-engine.ts";
import { pendingRecords } from "../../fakes/usage-record.ts";

const none = { characters: 0, audioMs: 0, images: 0, imagePixelSteps: 0, items: 0 };
/** Per million: characters USD 0.8, audio (ms) USD 0.1, images USD 9000. */
const rates: TicketUnits["rates"] = ["800000000", "100000000", "9000000000000", "0"];
const asking = (asked: Partial<TicketUnits["asked"]>, rate = rates) => ({
  stream: false,
  inputTokensEstimate: 0,
  hold: "10000000",
  maxTokens: 0,
  units: { asked: { ...none, ...asked }, rates: rate },
});
const at = (task: string) => `/i/instance00000001/v1/${task}`;

let engine: TaskEngine;
let path: DataPath;

beforeEach(async () => {
  engine = await startTaskEngine();
  path = await startDataPath(engine.origin);
});
afterEach(async () => {
  await path.close();
  await engine.close();
});

const lastRecord = async () => (await pendingRecords(path.spool, 100)).at(-1);

describe.each(carriers)("speech over a connection %s", (carrier: Carrier) => {
  const speak = { carrier, path: at("audio/speech"), ticket: asking({ characters: 42 }) };

  it("passes the audio as it comes and has the record before the last bytes", async () => {
    const audio = [randomBytes(70_000), randomBytes(9), randomBytes(200_000)];
    engine.answer({ contentType: "audio/wav", pieces: audio, pieceMs: 30 });
    let isRecorded: boolean | undefined;
    let bytes = 0;
    const reply = await call(path.port, {
      ...speak,
      onData: (piece) => {
        bytes += piece.length;
        if (bytes === 270_009) isRecorded = path.spool.depth().records === 1;
      },
    });
    expect(reply.headers["content-type"]).toBe("audio/wav");
    expect(reply.bytes.equals(Buffer.concat(audio))).toBe(true);
    expect(reply.usage).toMatchObject({ units: { characters: 42 }, source: "counted", endReason: "stop" });
    expect(isRecorded).toBe(true);
    expect(await lastRecord()).toMatchObject({ characters: 42, outputTokens: 0 });
  });

  it.each(["headers", "trailers"] as const)("takes the engine's own figures from its %s", async (where) => {
    engine.answer({ contentType: "audio/mpeg", pieces: ["a", "b"], [where]: { "x-stoker-units": "characters=40" } });
    const reply = await call(path.port, speak);
    expect(reply.usage).toMatchObject({ units: { characters: 40 }, source: "engine" });
    expect(await lastRecord()).toMatchObject({ characters: 40, source: "engine" });
  });

  it("of events passes them as they come, and is whole when they end", async () => {
    const events = ["a", "b"].map((audio) => `data: {"type":"speech.audio.delta","audio":"${audio}"}\n\n`);
    const done = 'data: {"type":"speech.audio.done","usage":{"input_tokens":14}}\n\n';
    engine.answer({ contentType: "text/event-stream", pieces: [...events, done], pieceMs: 20 });
    const reply = await call(path.port, speak);
    expect(reply.text).toBe([...events, done].join(""));
    expect(reply.usage).toMatchObject({ units: { characters: 42 }, source: "counted", endReason: "stop" });
    expect(await lastRecord()).toMatchObject({ characters: 42, outputTokens: 0 });
  });

  it("that breaks breaks off for the client too, and bills nothing", async () => {
    engine.answer({
      contentType: "audio/wav",
      pieces: [randomBytes(1000), randomBytes(1000)],
      pieceMs: 20,
      breaks: true,
    });
    const reply = await call(path.port, speak);
    expect(reply.complete).toBe(false);
    await expect.poll(() => path.spool.depth().records).toBe(1);
    const record = await lastRecord();
    expect(record?.endReason).toBe("engine_error");
    expect(record?.characters ?? 0).toBe(0);
  });

  it.each([
    ["says how far it was", { finished: true, input_tokens: 0, output_tokens: 0, characters: 17 }, 17, "engine"],
    [
      "still computes its last sentence",
      { finished: false, input_tokens: 0, output_tokens: 0, characters: 17 },
      17,
      "engine",
    ],
    ["cannot say it", undefined, 42, "estimated"],
  ] as const)("whose client leaves stops the engine, which %s", async (_, usage, characters, source) => {
    const pieces = Array.from({ length: 200 }, () => randomBytes(500));
    engine.answer({ contentType: "audio/wav", pieces, pieceMs: 20, ...(usage && { usage }) });
    const client = new AbortController();
    const { reply } = openCall(path.port, { ...speak, signal: client.signal, onData: () => client.abort() });
    await reply.catch(() => {});
    await expect.poll(() => engine.aborted).toBe(1);
    await expect.poll(() => path.spool.depth().records).toBe(1);
    expect(await lastRecord()).toMatchObject({ characters, source, endReason: "client_gone" });
  });
});

it.each(carriers)("passes a multipart body unchanged, over a connection %s", async (carrier) => {
  const body = Buffer.concat([Buffer.from("--b\r\n\r\n"), randomBytes(300_000), Buffer.from("\r\n--b--\r\n")]);
  const contentType = 'multipart/form-data; boundary="b"';
  engine.answer({ contentType: "text/plain; charset=utf-8", pieces: ["Hello World }"] });
  const reply = await call(path.port, {
    carrier,
    path: at("audio/transcriptions"),
    ticket: asking({ audioMs: 60_000 }),
    raw: { contentType, body },
  });
  expect(reply.text).toBe("Hello World }");
  expect(engine.requests[0]?.contentType).toBe(contentType);
  expect(engine.requests[0]?.body.equals(body)).toBe(true);
  expect(await lastRecord()).toMatchObject({ audioMs: 60_000, source: "estimated" });
});

it("refuses a multipart body above the bound with 413 before it reaches the engine", async () => {
  const small = await startDataPath(engine.origin, { limits: { maxBodyBytes: 1000 } });
  const raw = { contentType: "multipart/form-data; boundary=b", body: randomBytes(5000) };
  const reply = await call(small.port, { path: at("images/edits"), ticket: asking({ images: 1 }), raw });
  expect([reply.status, engine.requests.length]).toEqual([413, 0]);
  await small.close();
});

const png = '{"b64_json":"iVBOR"}';
const cases = [
  {
    name: "audio, by the engine's usage in seconds",
    task: "audio/transcriptions",
    asked: { audioMs: 60_000 },
    answer: '{"text":"Hi","usage":{"type":"duration","seconds":8.5}}',
    record: { audioMs: 8500, source: "engine" },
    // 8.5 s x USD 0.1 per 1000 s.
    cost: 0.00085,
  },
  {
    name: "audio, by the length the answer shows",
    task: "audio/transcriptions",
    asked: { audioMs: 60_000 },
    answer: '{"task":"transcribe","duration":8.4,"text":"Hi"}',
    record: { audioMs: 8400, source: "counted" },
  },
  {
    name: "images, by those in the answer, sizes and steps in proportion",
    task: "images/generations",
    asked: { images: 4, imagePixelSteps: 4 * 1024 * 1024 * 20 },
    answer: `{"created":1,"data":[${png},${png}]}`,
    record: { images: 2, imagePixelSteps: 2 * 1024 * 1024 * 20, source: "counted" },
  },
  {
    name: "images, by the engine's figures, priced by size and steps",
    task: "images/generations",
    asked: { images: 1, imagePixelSteps: 1 },
    rates: [...rates.slice(0, 3), String(1024 * 1024 * 20)] as unknown as TicketUnits["rates"],
    answer: `{"data":[${png}],"usage":{"images":1,"image_pixel_steps":${512 * 512 * 20}}}`,
    record: { images: 1, imagePixelSteps: 512 * 512 * 20, source: "engine" },
    // A quarter of an image of USD 9 per thousand.
    cost: 0.00225,
  },
  {
    name: "items, with the engine's tokens",
    task: "rerank",
    asked: { items: 3 },
    answer: '{"scores":[0.9,0.2,0.1],"usage":{"prompt_tokens":42,"total_tokens":42}}',
    record: { items: 3, inputTokens: 42, source: "engine" },
    // 42 x USD 1000 per million.
    cost: 0.000042,
  },
];

it.each(cases)("counts $name", async ({ task, asked, rates: own, answer, record, cost }) => {
  engine.answer({ contentType: "application/json", pieces: [answer] });
  const reply = await call(path.port, { path: at(task), ticket: asking(asked, own) });
  expect(await lastRecord()).toMatchObject(record);
  const { usage, ...rest } = JSON.parse(reply.text);
  const sent = JSON.parse(answer);
  // The contract has both fields in each image; engines leave them out.
  const data = task.startsWith("images/")
    ? sent.data.map((image: object) => ({ revised_prompt: null, url: null, ...image }))
    : undefined;
  if (cost === undefined) expect(usage).toEqual(sent.usage);
  else expect(usage.estimated_cost).toBe(cost);
  if (cost === undefined && !data) expect(reply.text).toBe(answer);
  expect(rest).toEqual({ ...sent, ...(data ? { data } : {}), usage: undefined });
});
