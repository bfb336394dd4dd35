// LangChain with the provider that PROVIDER names.
import { base, chat, joined, key, load, parameters, placeSchema, question, serve, vectors, weather } from "./driver.ts";

const { HumanMessage, ToolMessage } = load("@langchain/core/messages");
const { tool } = load("@langchain/core/tools");
const configuration = { baseURL: `${base}/v1` };
const tools = [tool(weather, { name: "weather", description: "The weather", schema: parameters })];

// biome-ignore lint/suspicious/noExplicitAny: see load.
const textFeatures = (prefix: string, model: any) => ({
  [prefix]: async () => (await model.invoke(question)).text,
  [`${prefix} stream`]: async () => {
    const texts = async function* () {
      for await (const chunk of await model.stream(question)) yield chunk.text as string;
    };
    return joined(texts());
  },
  [`${prefix} tools`]: async () => {
    const bound = model.bindTools(tools);
    const called = await bound.invoke(question);
    const [call] = called.tool_calls;
    const result = new ToolMessage({ content: weather(call.args), tool_call_id: call.id });
    return (await bound.invoke([new HumanMessage(question), called, result])).text;
  },
  [`${prefix} schema`]: () => model.withStructuredOutput(placeSchema, { name: "place" }).invoke(question),
});

const providers: Readonly<Record<string, () => Record<string, () => unknown>>> = {
  openai: () => {
    const { ChatOpenAI, OpenAIEmbeddings } = load("@langchain/openai");
    const settings = { model: chat, apiKey: key, configuration, maxRetries: 0 };
    const embeddings = new OpenAIEmbeddings({ ...settings, model: vectors });
    return {
      ...textFeatures("chat", new ChatOpenAI(settings)),
      ...textFeatures("responses", new ChatOpenAI({ ...settings, useResponsesApi: true })),
      embeddings: () => embeddings.embedDocuments(["one", "two"]),
    };
  },
  anthropic: () => {
    const { ChatAnthropic } = load("@langchain/anthropic");
    const settings = { model: chat, apiKey: key, anthropicApiUrl: base, maxTokens: 1_000, maxRetries: 0 };
    return textFeatures("messages", new ChatAnthropic(settings));
  },
};
await serve(providers[process.env["PROVIDER"] ?? ""]?.() ?? {});
