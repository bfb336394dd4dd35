// WebSockets for audio at a running control plane, with its own database and agent.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type EveryTaskStack, names, startEveryTaskStack } from "../../fakes/every-task-stack.ts";
import { connect } from "../../fakes/socket-client.ts";

describe("a WebSocket for audio at a control plane", () => {
  let served: EveryTaskStack;
  beforeAll(async () => {
    served = await startEveryTaskStack();
  }, 180_000);
  afterAll(() => served?.stop());

  const realtime = () => `${served.stack.url}/v1/realtime?intent=transcription&model=${names.HEARING}`;
  const second = Buffer.alloc(48_000).toString("base64");

  it("ends within four seconds when its key is revoked", async () => {
    const { stack } = served;
    const { body: made } = await stack.call("POST", "/v1/api-tokens", { name: "microphone" });
    const client = await connect(realtime(), { headers: { authorization: `Bearer ${made.token}` } });
    await client.type("session.created");
    const revoked = await stack.call("DELETE", `/v1/api-tokens/${made.token}`);
    expect(revoked.status).toBe(200);
    const since = performance.now();
    expect(await client.closed).toEqual({ code: 1008, reason: "invalid_api_key" });
    expect(performance.now() - since).toBeLessThan(4_500);
  });

  it("leaves a record of usage for each part, as a request over HTTP does", async () => {
    const { stack } = served;
    const countOf = async (model: string) => {
      const { body } = await stack.call("GET", `/v1/requests?model=${model}`);
      return (body.requests as unknown[]).length;
    };
    const recorded = async () => ({ hearing: await countOf(names.HEARING), speech: await countOf(names.SPEECH) });
    const before = await recorded();
    const headers = { authorization: `Bearer ${stack.apiKey}` };
    const client = await connect(realtime(), { headers });
    client.send({
      type: "session.update",
      session: { type: "transcription", audio: { input: { turn_detection: null } } },
    });
    client.send({ type: "input_audio_buffer.append", audio: second });
    client.send({ type: "input_audio_buffer.commit" });
    const completed = await client.type("conversation.item.input_audio_transcription.completed");
    expect([completed.transcript, completed.usage.seconds]).toEqual(["Hello World", 1]);
    const speaking = await connect(
      `${stack.url}/v1/text-to-speech/af_heart/stream-input?model_id=${names.SPEECH}&output_format=pcm_24000`,
      { headers },
    );
    speaking.send({ text: "Hello there" });
    speaking.send({ text: "" });
    expect((await speaking.closed).code).toBe(1000);
    const after = { hearing: before.hearing + 1, speech: before.speech + 1 };
    await vi.waitFor(async () => expect(await recorded()).toEqual(after), { timeout: 20_000 });
  });
});
