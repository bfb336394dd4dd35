// Vercel's AI SDK with the provider that PROVIDER names.

import { wav } from "../../../fakes/task-edge.ts";
import {
  base,
  chat,
  hearing,
  joined,
  key,
  load,
  parameters,
  pictures,
  placeSchema,
  question,
  serve,
  speech,
  vectors,
  weather,
} from "./driver.ts";

const ai = load("ai");
const server = { baseURL: `${base}/v1`, apiKey: key };
const shared = { prompt: question, maxRetries: 0 };
const tools = {
  weather: ai.tool({ description: "The weather", inputSchema: ai.jsonSchema(parameters), execute: weather }),
};

const textFeatures = (prefix: string, model: unknown) => ({
  [prefix]: async () => (await ai.generateText({ model, ...shared })).text,
  [`${prefix} stream`]: () => joined(ai.streamText({ model, ...shared }).textStream),
  [`${prefix} tools`]: async () =>
    (await ai.generateText({ model, ...shared, tools, stopWhen: ai.stepCountIs(3) })).text,
  [`${prefix} schema`]: async () => {
    const output = ai.Output.object({ schema: ai.jsonSchema(placeSchema) });
    return (await ai.generateText({ model, ...shared, output })).output;
  },
});

// biome-ignore lint/suspicious/noExplicitAny: see load.
const taskFeatures = (provider: any) => ({
  embeddings: async () =>
    (await ai.embedMany({ model: provider.textEmbeddingModel(vectors), values: ["one", "two"], maxRetries: 0 }))
      .embeddings,
  image: async () =>
    (await ai.generateImage({ model: provider.imageModel(pictures), prompt: "a cat", size: "64x64", maxRetries: 0 }))
      .image.base64,
});

const providers: Readonly<Record<string, () => Record<string, () => unknown>>> = {
  openai: () => {
    const provider = load("@ai-sdk/openai").createOpenAI(server);
    return {
      ...textFeatures("chat", provider.chat(chat)),
      ...textFeatures("responses", provider.responses(chat)),
      ...taskFeatures(provider),
      speech: async () => {
        const given = { model: provider.speech(speech), text: "Hello", voice: "af_heart", outputFormat: "wav" };
        const { audio } = await ai.experimental_generateSpeech({ ...given, maxRetries: 0 });
        return Buffer.from(audio.uint8Array).toString();
      },
      transcription: async () =>
        (await ai.experimental_transcribe({ model: provider.transcription(hearing), audio: wav(1), maxRetries: 0 }))
          .text,
    };
  },
  "openai-compatible": () => {
    const settings = { name: "stoker", supportsStructuredOutputs: true, ...server };
    const provider = load("@ai-sdk/openai-compatible").createOpenAICompatible(settings);
    return { ...textFeatures("chat", provider(chat)), ...taskFeatures(provider) };
  },
  anthropic: () => textFeatures("messages", load("@ai-sdk/anthropic").createAnthropic(server)(chat)),
};
await serve(providers[process.env["PROVIDER"] ?? ""]?.() ?? {});
