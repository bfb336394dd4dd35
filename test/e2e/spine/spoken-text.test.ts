// Text that becomes speech while it is written: from a WebSocket at the gateway through an agent to a real voice. What was said is
// judged by a recogniser, and what it cost is read from the database.
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { wavHeader } from "../../../proto/wav.ts";
import { speechPieces } from "../../../runtime/tasks/speech/pieces.ts";
import { wordShare } from "../../fakes/audio-tools.ts";
import { cachedModel } from "../../fakes/cached-models.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { type ServedModel, serveModel } from "../../fakes/served-model.ts";
import { sharedModel } from "../../fakes/shared-models.ts";
import { connect, type SocketClient } from "../../fakes/socket-client.ts";
import { type UsageRow, usageRows } from "./database.ts";

const ears = sharedModel("whisper-tiny.en", "speech from streamed text is understood again");
const voices = [
  { key: "piper-joe", model: "rhasspy/piper-en_US-joe-medium", voice: "en_US-joe-medium" },
  { key: "kokoro-82m", model: "hexgrad/Kokoro-82M", voice: "af_heart" },
].map((one) => ({ ...one, folder: cachedModel(one.key, `speech from streamed text by ${one.key}`) }));
/** USD per million characters: 2,000 nano-USD for each. */
const pricePerMillion = 2;
const charge = (characters: number) => characters * pricePerMillion * 1000;
const sampleRate = 24_000;

const short = "The weather in Paris will be sunny on Thursday.";
const long = [
  "Please send the report to the office before the meeting on Monday.",
  "The train to the north leaves at seven in the morning and arrives before lunch.",
  "We will walk along the river and then have dinner in the old town.",
].join(" ");

describe.each(voices.filter(({ folder }) => folder && ears))("$key speaks text as it is written", (spoken) => {
  let stack: Stack;
  let judge: ServedModel;
  let models: string;
  const clients: SocketClient[] = [];
  beforeAll(async () => {
    models = mkdtempSync(join(tmpdir(), "stoker-voices-"));
    symlinkSync(spoken.folder as string, join(models, spoken.key));
    judge = await serveModel(ears as string);
    stack = await startStack({ controlPlaneEnv: { STOKER_DEMO_MODELS: models } });
    const order = { model_name: spoken.model, task: "text-to-speech", gpu: "other", max_batch_size: 4 };
    const made = await stack.call("POST", "/deploy/hf/", order);
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    const { deploy_id } = made.body;
    await vi.waitFor(
      async () => {
        const { status, fail_reason } = (await stack.call("GET", `/deploy/${deploy_id}`)).body;
        expect(status, fail_reason as string).toBe("deployed");
      },
      { timeout: 150_000, interval: 300 },
    );
    const pricing = { input: 0, cached_input: 0, output: 0, characters: pricePerMillion };
    const terms = { deploy_id, description: "test", pricing };
    const offered = await stack.call("PUT", `/v1/admin/models/${spoken.model}`, terms);
    expect(offered.status, JSON.stringify(offered.body)).toBe(200);
  });
  afterAll(async () => {
    for (const { ws } of clients) ws.terminate();
    await stack?.stop();
    await judge?.close();
    if (models) rmSync(models, { recursive: true, force: true });
  });

  async function open(format: string): Promise<SocketClient> {
    const query = new URLSearchParams({ model_id: spoken.model, output_format: format });
    const at = `${stack.url}/v1/text-to-speech/${spoken.voice}/stream-input?${query}`;
    const client = await connect(at, { headers: { "xi-api-key": stack.apiKey } });
    clients.push(client);
    return client;
  }

  /** Sends the text word by word, as a language model writes it; returns all sound of the session. */
  async function say(text: string, format: string): Promise<Buffer> {
    const client = await open(format);
    for (const word of text.match(/\S+\s*/g) ?? []) client.send({ text: word });
    client.send({ text: "" });
    expect(await client.closed).toEqual({ code: 1000, reason: "" });
    return Buffer.concat(client.messages.map(({ audio }) => Buffer.from(audio ?? "", "base64")));
  }

  /** Returns what one request over HTTP sends as events. */
  async function sayOverHttp(input: string): Promise<Buffer> {
    const answer = await fetch(`${stack.url}/v1/audio/speech`, {
      method: "POST",
      headers: { authorization: `Bearer ${stack.apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: spoken.model,
        input,
        voice: spoken.voice,
        response_format: "pcm",
        stream_format: "sse",
      }),
    });
    expect(answer.status).toBe(200);
    const events = (await answer.text())
      .split("\n\n")
      .filter((event) => event.startsWith("data: {"))
      .map((event) => JSON.parse(event.slice("data: ".length)));
    expect(events.at(-1)).toMatchObject({ type: "speech.audio.done" });
    return Buffer.concat(events.map(({ audio }) => Buffer.from(audio ?? "", "base64")));
  }

  async function heard(file: Buffer): Promise<string> {
    const form = new FormData();
    form.append("file", new Blob([new Uint8Array(file)]), "spoken");
    const answer = await fetch(`${judge.origin}/v1/audio/transcriptions`, { method: "POST", body: form });
    return (await answer.json()).text;
  }

  const wav = (pcm: Buffer) => Buffer.concat([wavHeader(sampleRate, pcm.length), pcm]);

  /** What was settled since `before` records, once there are `count` more. */
  async function bills(before: number, count: number): Promise<readonly UsageRow[]> {
    return await vi.waitFor(
      async () => {
        const rows = (await requestRows()).slice(before);
        expect(rows, JSON.stringify(rows)).toHaveLength(count);
        return rows;
      },
      { timeout: 60_000, interval: 200 },
    );
  }
  /** Without those of the instance's time. */
  const requestRows = async () =>
    (await usageRows(stack.databaseUrl)).filter(({ request_id: id }) => !id.startsWith("gpu:"));
  const recordCount = async () => (await requestRows()).length;
  const sumOf = (rows: readonly UsageRow[]) => rows.reduce((sum, row) => sum + row.charge, 0);

  it("is understood, and costs what the same text costs over HTTP", async () => {
    const before = await recordCount();
    const streamed = await say(short, "pcm_24000");
    expect(wordShare(short, await heard(wav(streamed)))).toBeGreaterThanOrEqual(0.8);
    const [bySocket] = await bills(before, 1);
    const whole = await sayOverHttp(short);
    expect(wordShare(short, await heard(wav(whole)))).toBeGreaterThanOrEqual(0.8);
    const [byHttp] = await bills(before + 1, 1);
    expect(bySocket).toMatchObject({ charge: charge(short.length), source: "engine", end_reason: "stop" });
    expect(byHttp).toMatchObject({ charge: charge(short.length), source: "engine", end_reason: "stop" });
  });

  it("speaks a long text in pieces, each billed by its characters", async () => {
    const before = await recordCount();
    const streamed = await say(long, "pcm_24000");
    expect(wordShare(long, await heard(wav(streamed)))).toBeGreaterThanOrEqual(0.8);
    const rows = await bills(before, 2);
    // The space between two pieces is not spoken.
    expect(sumOf(rows)).toBe(charge(long.length - 1));
  });

  it("bills a client that hangs up only for the sentences whose speech had begun", { timeout: 120_000 }, async () => {
    const before = await recordCount();
    const text = Array.from({ length: 60 }, () => long).join(" ");
    const client = await open("pcm_24000");
    client.send({ text, flush: true });
    client.send({ text: `${long} `, flush: true });
    await client.find(({ audio }) => audio);
    client.ws.terminate();
    const [row] = await bills(before, 1);
    expect(row).toMatchObject({ source: "engine", end_reason: "client_gone" });
    const sentences = speechPieces(text);
    const begun = sentences.map((_, i) => charge(sentences.slice(0, i + 1).join("").length));
    expect(begun.slice(0, -1)).toContain(row?.charge);
    // The second text was never asked for.
    await say(short, "pcm_24000");
    const later = await bills(before + 1, 1);
    expect(sumOf(later)).toBe(charge(short.length));
  });
});
