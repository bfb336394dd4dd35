// Official clients of the WebSockets for audio, unmodified. They connect by TLS only.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import type { RealtimeServerEvent } from "openai/resources/realtime/realtime";
import { pino } from "pino";
import { Agent, fetch } from "undici";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type WatchedTls, watchTls } from "../../../control-plane/http/connections/public-tls.ts";
import { type EveryTaskEngine, startEveryTaskEngine } from "../../fakes/every-task-engine.ts";
import { ada, apiKey } from "../../fakes/ports.ts";
import { type CertificateFiles, writeCertificate } from "../../fakes/public-certificate.ts";
import { hasModule, runPython } from "../../fakes/python.ts";
import { startTaskEdge, type TaskEdge } from "../../fakes/task-edge.ts";

const modules = await Promise.all(["elevenlabs", "openai", "websockets"].map(hasModule));
const hasClients = modules.every(Boolean);
if (!hasClients)
  console.warn("\n*** NOT PROVEN: WebSockets with Python's elevenlabs and openai; scripts/test brings them\n");

describe("WebSockets for audio", () => {
  let engine: EveryTaskEngine;
  let folder: string;
  let files: CertificateFiles;
  let tls: WatchedTls;
  let tasks: TaskEdge;
  let url: string;
  beforeAll(async () => {
    engine = await startEveryTaskEngine(["as-served"]);
    folder = mkdtempSync(join(tmpdir(), "stoker-sockets-"));
    files = writeCertificate(folder, "sockets");
    tls = await watchTls(files, pino({ level: "silent" }));
    tasks = await startTaskEdge(engine.origin, (deps) => ({ ...deps, tls }));
    url = tasks.edge.url.replace("http://127.0.0.1", "https://localhost");
  });
  afterAll(async () => {
    await tasks?.close();
    await engine?.close();
    tls?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("serve realtime transcription to OpenAI's client of npm", async () => {
    tasks.offer({});
    const client = new OpenAI({ apiKey, baseURL: `${url}/v1` });
    const realtime = new OpenAIRealtimeWS(
      { intent: "transcription", options: { ca: readFileSync(files.certFile) } },
      client,
    );
    const types: string[] = [];
    type Completed = Extract<RealtimeServerEvent, { type: "conversation.item.input_audio_transcription.completed" }>;
    const completed = new Promise<Completed>((resolve, reject) => {
      realtime.on("error", reject);
      realtime.on("event", ({ type }) => types.push(type));
      realtime.on("conversation.item.input_audio_transcription.completed", resolve);
    });
    realtime.on("session.created", () => {
      const input = { transcription: { model: "org/model" }, turn_detection: null };
      realtime.send({ type: "session.update", session: { type: "transcription", audio: { input } } });
      realtime.send({ type: "input_audio_buffer.append", audio: Buffer.alloc(96_000).toString("base64") });
      realtime.send({ type: "input_audio_buffer.commit" });
    });
    expect(await completed).toMatchObject({ transcript: "Hello World", usage: { type: "duration", seconds: 1 } });
    expect(types).toEqual([
      "session.created",
      "session.updated",
      "input_audio_buffer.committed",
      "conversation.item.added",
      "conversation.item.input_audio_transcription.delta",
      "conversation.item.input_audio_transcription.completed",
    ]);
    realtime.close();
  });

  it("serve OpenAI's client of npm with an ephemeral key that it created", async () => {
    tasks.offer({});
    tasks.edge.authenticator.callers.set("jwt:made", { ...ada, via: "jwt", models: new Set(["org/model"]) });
    const dispatcher = new Agent({ connect: { ca: readFileSync(files.certFile) } });
    const viaTls = { fetch: fetch as never, fetchOptions: { dispatcher } as never };
    const client = new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0, ...viaTls });
    const transcription = { model: "org/model" as const };
    const made = await client.realtime.clientSecrets.create({
      expires_after: { anchor: "created_at", seconds: 60 },
      session: { type: "transcription", audio: { input: { transcription } } },
    });
    expect(made.session).toMatchObject({ type: "transcription", audio: { input: { transcription } } });
    const page = new OpenAI({ apiKey: made.value, baseURL: `${url}/v1` });
    const options = { ca: readFileSync(files.certFile) };
    const realtime = new OpenAIRealtimeWS({ intent: "transcription", options }, page);
    const session = await new Promise((resolve, reject) => {
      realtime.on("error", reject);
      realtime.on("session.created", (event) => resolve(event.session));
    });
    expect(session).toMatchObject({ audio: { input: { transcription } } });
    realtime.close();
    await dispatcher.close();
  });

  async function drive(client: "openai" | "elevenlabs"): Promise<unknown> {
    tasks.offer({});
    const script = join(import.meta.dirname, "drive_sockets.py");
    const env = { BASE_URL: url, API_KEY: apiKey, MODEL: "org/model", SSL_CERT_FILE: files.certFile };
    const ran = await runPython([script, client], { limitMs: 60_000, env });
    expect(ran.code, `${ran.stderr}\n${ran.stdout}`).toBe(0);
    return JSON.parse(ran.stdout);
  }

  it.runIf(hasClients)("serve realtime transcription to OpenAI's client of Python", async () => {
    expect(await drive("openai")).toEqual(["Hello World", "duration", 1]);
  });

  // Its WebSocket client hangs in 1 of 200 TLS handshakes, with any server: docs/clients.md. The contract suite has the same exchange.
  it.runIf(hasClients)("serve speech from streamed text to ElevenLabs' client of Python", async () => {
    expect(await drive("elevenlabs")).toEqual({ spoken: "RIFF said", unknown: [1008, "model_not_found"] });
  });
});
