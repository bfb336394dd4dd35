// Transcripts of a hostile model server, perhaps of a customer's own image: they cost the control plane little and never end it.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { connect } from "../fakes/socket-client.ts";
import { form, startTaskEdge, type TaskEdge, wav } from "../fakes/task-edge.ts";

const mib = 1024 * 1024;
const pieces = {
  "in small events": Array.from(
    { length: 400 },
    () => `data: ${JSON.stringify({ type: "transcript.text.delta", delta: "a".repeat(32 * 1024) })}\n\n`,
  ),
  "in one event": ['data: {"type":"transcript.text.delta","delta":"', ...Array(200).fill("a".repeat(64 * 1024))],
};

describe.each(Object.entries(pieces))("a transcript that never ends, %s", (_, sent) => {
  let tasks: TaskEdge;
  beforeAll(async () => {
    tasks = await startTaskEdge();
    tasks.offer({});
    tasks.engine.answer({ contentType: "text/event-stream", pieces: sent, pieceMs: 1 });
  });
  afterAll(() => tasks.close());

  it("is cut with an error over HTTP, and its hold waits for the record", async () => {
    const body = form({ model: "org/model", stream: "true", file: new Blob([wav(1)]) }, { file: "a.wav" });
    const text = await (await tasks.send("/v1/audio/transcriptions", body)).text();
    expect(text.length).toBeLessThan(6 * mib);
    expect(text.slice(-400)).toContain("upstream_error");
    await vi.waitFor(() => expect(tasks.engine.aborted).toBe(1));
    expect(tasks.lastHold().end).toEqual({ how: "waits", attempt: 1 });
  });

  it("fails its part of a realtime session, which goes on", async () => {
    const client = await connect(`${tasks.edge.url}/v1/realtime?intent=transcription&model=org/model`);
    client.send({
      type: "session.update",
      session: { type: "transcription", audio: { input: { turn_detection: null } } },
    });
    client.send({ type: "input_audio_buffer.append", audio: Buffer.alloc(48_000).toString("base64") });
    client.send({ type: "input_audio_buffer.commit" });
    const failed = await client.type("conversation.item.input_audio_transcription.failed");
    expect(failed.error.code).toBe("upstream_error");
    client.send({ type: "input_audio_buffer.clear" });
    await client.type("input_audio_buffer.cleared");
    client.ws.terminate();
  });
});

describe("an error of a transcript that is nested too deep to be written", () => {
  it("fails its part of a realtime session and its response over HTTP, and nothing else", async () => {
    const deep = "[".repeat(200_000) + "]".repeat(200_000);
    const tasks = await startTaskEdge();
    tasks.offer({});
    tasks.engine.answer({
      contentType: "text/event-stream",
      pieces: [`data: {"error":{"message":"no","a":${deep}}}\n\n`],
    });
    const client = await connect(`${tasks.edge.url}/v1/realtime?intent=transcription&model=org/model`);
    client.send({
      type: "session.update",
      session: { type: "transcription", audio: { input: { turn_detection: null } } },
    });
    client.send({ type: "input_audio_buffer.append", audio: Buffer.alloc(48_000).toString("base64") });
    client.send({ type: "input_audio_buffer.commit" });
    const failed = await client.type("conversation.item.input_audio_transcription.failed");
    expect(failed.error).toEqual({ message: "no", type: "server_error", param: null, code: null });
    const body = form({ model: "org/model", stream: "true", file: new Blob([wav(1)]) }, { file: "a.wav" });
    const text = await (await tasks.send("/v1/audio/transcriptions", body)).text();
    expect(JSON.parse(text.replace("data: ", ""))).toEqual({ error: failed.error });
    client.ws.terminate();
    await tasks.close();
  });
});
