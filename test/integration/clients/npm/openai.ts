import OpenAI, { toFile } from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { wav } from "../../../fakes/task-edge.ts";
import {
  base,
  chat,
  hearing,
  key,
  parameters,
  pictures,
  placeSchema,
  polled,
  question,
  secureBase,
  serve,
  speech,
  vectors,
  weather,
} from "./driver.ts";

const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: key, maxRetries: 0, timeout: 60_000 });
const messages = [{ role: "user" as const, content: question }];
const described = { name: "weather", description: "The weather", parameters };
const flat = [{ type: "function" as const, strict: false, ...described }];

async function chatStream(): Promise<string> {
  const stream = client.chat.completions.stream({ model: chat, messages });
  return (await stream.finalChatCompletion()).choices[0]?.message.content ?? "";
}

async function chatTools(): Promise<unknown> {
  const runner = client.chat.completions.runTools({
    model: chat,
    messages,
    tools: [{ type: "function", function: { ...described, parse: JSON.parse, function: weather } }],
  });
  return runner.finalContent();
}

async function chatSchema(): Promise<unknown> {
  const answer = await client.chat.completions.parse({
    model: chat,
    messages,
    response_format: { type: "json_schema", json_schema: { name: "place", strict: true, schema: placeSchema } },
  });
  return JSON.parse(answer.choices[0]?.message.content ?? "");
}

async function responsesStream(): Promise<string> {
  const stream = client.responses.stream({ model: chat, input: question });
  return (await stream.finalResponse()).output_text;
}

async function responsesTools(): Promise<string> {
  const called = await client.responses.create({ model: chat, input: question, tools: flat });
  const [call] = called.output.filter((item) => item.type === "function_call");
  if (!call) throw new Error("no tool was called");
  const output = weather(JSON.parse(call.arguments));
  const result = { type: "function_call_output" as const, call_id: call.call_id, output };
  const input = [{ role: "user" as const, content: question }, call, result];
  return (await client.responses.create({ model: chat, input, tools: flat })).output_text;
}

async function responsesSchema(): Promise<unknown> {
  const format = { type: "json_schema", name: "place", strict: true, schema: placeSchema } as const;
  return JSON.parse((await client.responses.create({ model: chat, input: question, text: { format } })).output_text);
}

async function chatBatch(): Promise<unknown> {
  const line = { custom_id: "one", method: "POST", url: "/v1/chat/completions", body: { model: chat, messages } };
  const requests = await toFile(Buffer.from(JSON.stringify(line)), "requests.jsonl");
  const { id: input_file_id } = await client.files.create({ file: requests, purpose: "batch" });
  const endpoint = "/v1/chat/completions" as const;
  const { id } = await client.batches.create({ input_file_id, endpoint, completion_window: "24h" });
  const output = await polled(async () => {
    const { status, output_file_id } = await client.batches.retrieve(id);
    return status === "completed" ? output_file_id : undefined;
  });
  const text = await (await client.files.content(output)).text();
  return text
    .trimEnd()
    .split("\n")
    .map((one) => JSON.parse(one))
    .map(({ custom_id, response }) => [custom_id, response.body.choices[0].message.content]);
}

async function transcriptionStream(): Promise<string> {
  const file = await toFile(wav(1), "a.wav");
  let text = "";
  for await (const event of await client.audio.transcriptions.create({ model: hearing, file, stream: true })) {
    if (event.type === "transcript.text.delta") text += event.delta;
    if (event.type === "transcript.text.done" && event.text !== text) throw new Error(`"${event.text}" at the end`);
  }
  return text;
}

async function transcriptionRealtime(): Promise<string> {
  const secure = new OpenAI({ baseURL: `${secureBase}/v1`, apiKey: key });
  const realtime = new OpenAIRealtimeWS({ intent: "transcription" }, secure);
  try {
    return await new Promise<string>((resolve, reject) => {
      realtime.on("error", reject);
      realtime.on("conversation.item.input_audio_transcription.completed", ({ transcript }) => resolve(transcript));
      realtime.on("session.created", () => {
        const input = { transcription: { model: hearing }, turn_detection: null };
        realtime.send({ type: "session.update", session: { type: "transcription", audio: { input } } });
        realtime.send({ type: "input_audio_buffer.append", audio: Buffer.alloc(96_000).toString("base64") });
        realtime.send({ type: "input_audio_buffer.commit" });
      });
    });
  } finally {
    realtime.close();
  }
}

await serve({
  chat: async () => (await client.chat.completions.create({ model: chat, messages })).choices[0]?.message.content,
  "chat stream": chatStream,
  "chat tools": chatTools,
  "chat schema": chatSchema,
  "chat batch": chatBatch,
  responses: async () => (await client.responses.create({ model: chat, input: question })).output_text,
  "responses stream": responsesStream,
  "responses tools": responsesTools,
  "responses schema": responsesSchema,
  embeddings: async () =>
    (await client.embeddings.create({ model: vectors, input: ["one", "two"] })).data.map((one) => one.embedding),
  speech: async () =>
    (
      await client.audio.speech.create({ model: speech, voice: "af_heart", input: "Hello", response_format: "wav" })
    ).text(),
  transcription: async () =>
    (await client.audio.transcriptions.create({ model: hearing, file: await toFile(wav(1), "a.wav") })).text,
  "transcription stream": transcriptionStream,
  "transcription realtime": transcriptionRealtime,
  image: async () =>
    (await client.images.generate({ model: pictures, prompt: "a cat", size: "64x64" as "256x256" })).data?.[0]
      ?.b64_json,
});
