// From the public endpoints through the agent's data path to real models of other tasks than text, and what it cost.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI, { toFile } from "openai";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { wordShare } from "../../fakes/audio-tools.ts";
import { apiKey } from "../../fakes/ports.ts";
import { type ServedModel, serveModel } from "../../fakes/served-model.ts";
import { referenceOf, sharedModel } from "../../fakes/shared-models.ts";
import { connect } from "../../fakes/socket-client.ts";
import { form, startTaskEdge, type TaskEdge } from "../../fakes/task-edge.ts";

const sentences = sharedModel("all-MiniLM-L6-v2", "embeddings of a real model through the gateway");
const digits = sharedModel("digits-classifier", "pictures classified by a real model through the gateway");
const diffusion = sharedModel("digits-diffusion", "pictures painted by a real model through the gateway");
const ears = sharedModel("whisper-tiny.en", "realtime transcription by a real model through the gateway");

let served: ServedModel;
let tasks: TaskEdge;
const start = async (model: string) => {
  served = await serveModel(model);
  tasks = await startTaskEdge(served.origin);
};
const stop = async () => {
  await tasks?.close();
  await served?.close();
};

const cosine = (a: readonly number[], b: readonly number[]) => {
  const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, v, i) => sum + v * (y[i] as number), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};

describe.runIf(sentences)("a real embedding model behind the gateway", () => {
  beforeAll(() => start(sentences as string));
  afterAll(stop);
  const reference: { text: string; embedding: number[] }[] = sentences ? referenceOf(sentences).sentences : [];

  it("serves the official client with the reference's vectors, and costs what its tokens cost", async () => {
    tasks.offer({ task: "embeddings", servedName: "o/m" });
    const client = new OpenAI({ apiKey, baseURL: `${tasks.edge.url}/v1/openai`, maxRetries: 0 });
    const answer = await client.embeddings.create({ model: "org/model", input: reference.map(({ text }) => text) });
    for (const [i, { embedding }] of reference.entries()) {
      expect(cosine(answer.data[i]?.embedding as number[], embedding)).toBeGreaterThan(0.985);
    }
    expect(answer.usage.prompt_tokens).toBeGreaterThan(reference.length);
    expect(tasks.settled()).toBe(BigInt(answer.usage.prompt_tokens) * 20n);
  });

  it("serves native inference with the same vectors", async () => {
    tasks.offer({ task: "embeddings", servedName: "o/m" });
    const inputs = reference.slice(0, 2).map(({ text }) => text);
    const body = await (await tasks.edge.post("/v1/inference/org/model", { inputs })).json();
    expect(cosine(body.embeddings[1], reference[1]?.embedding as number[])).toBeGreaterThan(0.985);
    expect(body.inference_status).toMatchObject({ status: "succeeded", tokens_input: body.input_tokens });
    expect(body.inference_status.cost).toBeGreaterThan(0);
  });

  it("is reported as a model of another task for a chat", async () => {
    tasks.offer({ task: "embeddings", servedName: "o/m" });
    const chat = { model: "org/model", messages: [{ role: "user", content: "Hi" }] };
    const answer = await tasks.edge.post("/v1/chat/completions", chat);
    expect([answer.status, (await answer.json()).error.code]).toEqual([400, "unsupported_task"]);
  });
});

describe.runIf(digits)("a real image classifier behind the gateway", () => {
  beforeAll(() => start(digits as string));
  afterAll(stop);

  it("serves native inference for a file and for a data URI", async () => {
    tasks.offer({ task: "image-classification", servedName: "o/m" });
    const [sample] = referenceOf(digits as string).samples;
    const picture = readFileSync(join(digits as string, sample.file));
    const file = form({ image: new Blob([new Uint8Array(picture)], { type: "image/png" }) }, { image: "digit.png" });
    const sent = await (await tasks.send("/v1/inference/org/model", file)).json();
    expect(sent.results?.[0], JSON.stringify(sent)).toMatchObject({ label: sample.label });
    const image = `data:image/png;base64,${picture.toString("base64")}`;
    const told = await (await tasks.edge.post("/v1/inference/org/model", { image })).json();
    expect(told.results).toEqual(sent.results);
    expect(told.inference_status.status).toBe("succeeded");
  });
});

describe.runIf(diffusion && digits)("a real diffusion pipeline behind the gateway", () => {
  const client = () => new OpenAI({ apiKey, baseURL: `${tasks.edge.url}/v1/openai`, maxRetries: 0 });
  let judge: ServedModel;
  beforeAll(async () => {
    await start(diffusion as string);
    judge = await serveModel(digits as string);
  });
  afterAll(async () => {
    await stop();
    await judge?.close();
  });
  const seen = async (image: string | undefined): Promise<string> =>
    (await judge.post("/v1/infer", { image })).body.results[0].label;
  const offer = () => tasks.offer({ task: "text-to-image", servedName: "o/m" });
  const sample = () => readFileSync(join(digits as string, "samples/real-7.png"));
  /** 20 steps of 1024 x 1024 cost USD 0.009, a token 20 nano-USD; broken nano-USD are rounded up. */
  const price = (steps: number, tokens: number) =>
    BigInt(Math.ceil((64 * 64 * steps * 9_000_000) / (20 * 1024 * 1024) + tokens * 20));

  it("paints for the official client, and costs its size and steps", async () => {
    offer();
    const answer = await client().images.generate({
      model: "org/model",
      prompt: "digit 4",
      n: 2,
      size: "64x64" as "auto",
    });
    expect(answer.data).toHaveLength(2);
    for (const { b64_json } of answer.data ?? []) expect(await seen(b64_json)).toBe("4");
    const tokens = (answer.usage as unknown as { prompt_tokens: number } | undefined)?.prompt_tokens ?? 0;
    expect(tasks.settled()).toBe(price(2 * 20, tokens));
  });

  it("serves native inference with the picture of the seed, for numbers sent as strings", async () => {
    offer();
    const [run] = referenceOf(diffusion as string).runs;
    const body = {
      prompt: run.prompt,
      width: "64",
      height: "64",
      seed: 42,
      guidance_scale: 4,
      num_inference_steps: 20,
    };
    const told = await (await tasks.edge.post("/v1/inference/org/model", body)).json();
    expect(told).toMatchObject({ nsfw_content_detected: [false], seed: 42, inference_status: { status: "succeeded" } });
    const bytes = Buffer.from(told.images[0].split(",")[1], "base64");
    const { data } = await sharp(bytes).resize(8, 8, { kernel: "nearest" }).raw().toBuffer({ resolveWithObject: true });
    expect(data).toHaveLength(192);
    expect(await seen(told.images[0])).toBe(String(run.classifier_label));
  });

  it("edits the open part of a picture, varies one, and says which sizes there are", async () => {
    offer();
    const given = await sharp(sample()).removeAlpha().raw().toBuffer();
    const alpha = Buffer.alloc(64 * 64, 255);
    for (let at = 0; at < alpha.length; at++) if (at % 64 >= 40) alpha[at] = 0;
    const raw = { width: 64, height: 64 };
    const mask = await sharp(given, { raw: { ...raw, channels: 3 } })
      .joinChannel(alpha, { raw: { ...raw, channels: 1 } })
      .png()
      .toBuffer();
    const edited = await client().images.edit({
      model: "org/model",
      image: await toFile(sample(), "seven.png", { type: "image/png" }),
      mask: await toFile(mask, "mask.png", { type: "image/png" }),
      prompt: "digit 0",
      size: "64x64" as "auto",
    });
    const after = await sharp(Buffer.from(edited.data?.[0]?.b64_json ?? "", "base64"))
      .removeAlpha()
      .raw()
      .toBuffer();
    const differs = (from: number, to: number) =>
      after.some((value, i) => Math.floor(i / 3) % 64 >= from && Math.floor(i / 3) % 64 < to && value !== given[i]);
    expect([differs(0, 40), differs(40, 64)]).toEqual([false, true]);
    const image = await toFile(sample(), "seven.png", { type: "image/png" });
    const varied = await client().images.createVariation({ model: "org/model", image, size: "64x64" as "512x512" });
    expect(await seen(varied.data?.[0]?.b64_json)).toBe("7");
    const refused = await tasks.edge.post("/v1/images/generations", { model: "org/model", prompt: "digit 4" });
    expect([refused.status, (await refused.json()).error.message]).toEqual([400, expect.stringContaining("64x64")]);
  });
});

describe.runIf(ears)("a real speech recognition model behind the gateway", () => {
  beforeAll(() => start(ears as string));
  afterAll(stop);
  const samples: { file: string; seconds: number; reference_fp32: string }[] = ears ? referenceOf(ears).samples : [];

  /** From 16 to 24 kHz, in the order of the file. */
  function faster(wav: Buffer): Buffer {
    const from = wav.subarray(44);
    const count = Math.floor(from.length / 2);
    const at = (index: number) => from.readInt16LE(Math.min(count - 1, index) * 2);
    const to = Buffer.alloc(Math.floor((count * 3) / 2) * 2);
    for (let i = 0; i < to.length / 2; i += 1) {
      const place = (i * 2) / 3;
      const low = Math.floor(place);
      to.writeInt16LE(Math.round(at(low) + (at(low + 1) - at(low)) * (place - low)), i * 2);
    }
    return to;
  }

  it("transcribes speech over a WebSocket as it is spoken, billed by its duration", { timeout: 120_000 }, async () => {
    tasks.offer({ task: "automatic-speech-recognition", servedName: "o/m" });
    const client = await connect(`${tasks.edge.url}/v1/realtime?intent=transcription&model=org/model`);
    const [sample] = samples;
    const speech = faster(readFileSync(join(ears as string, sample?.file ?? "")));
    const silence = Buffer.alloc(48_000);
    const sound = Buffer.concat([silence, speech, silence]);
    const turnDetection = { type: "server_vad", silence_duration_ms: 900 };
    client.send({
      type: "session.update",
      session: { type: "transcription", audio: { input: { turn_detection: turnDetection } } },
    });
    for (let from = 0; from < sound.length; from += 4_800)
      client.send({ type: "input_audio_buffer.append", audio: sound.toString("base64", from, from + 4_800) });
    const prefix = "conversation.item.input_audio_transcription";
    const completed = await client.type(`${prefix}.completed`);
    client.ws.close();
    await client.closed;
    const parts = client.messages.filter(({ type }) => type === `${prefix}.completed`);
    const heard = parts.map(({ transcript }) => transcript).join(" ");
    expect(wordShare(sample?.reference_fp32 ?? "", heard)).toBeGreaterThanOrEqual(0.8);
    expect(client.types).toContain(`${prefix}.delta`);
    // The part is what was spoken, with up to 0.3 s before and 0.9 s after it.
    expect(completed.usage.seconds).toBeLessThan((sample?.seconds ?? 0) + 1.3);
    expect(tasks.settled()).toBe(BigInt(Math.round(completed.usage.seconds * 1000)) * 100n);
  });
});
