// Clients that are run unmodified against a running Stoker, and the features that each of them uses.

export type Surface = "Chat" | "Responses" | "Messages" | "Other tasks" | "Coding session" | "MCP";

interface Feature {
  readonly surface: Surface;
  /** Name in the table of docs/clients.md. */
  readonly part: string;
  readonly value: unknown;
  /** True: the feature leaves a record of usage. */
  readonly isMetered: boolean;
}

const answer = "The answer is 42.";
const place = { city: "Paris", people: 2 };
const vector = [0.25, -0.5, 1];
const metered = (surface: Surface, part: string, value: unknown): Feature => ({
  surface,
  part,
  value,
  isMetered: true,
});

const textFeatures = <Name extends string>(name: Name, surface: Surface) =>
  ({
    [name]: metered(surface, "text", answer),
    [`${name} stream`]: metered(surface, "stream", answer),
    [`${name} tools`]: metered(surface, "tools", "It was: sunny in Paris"),
    [`${name} schema`]: metered(surface, "schema", place),
  }) as Record<Name | `${Name} ${"stream" | "tools" | "schema"}`, Feature>;

const edited = (part: string) => metered("Coding session", part, "goodbye world\n");

export const features = {
  ...textFeatures("chat", "Chat"),
  ...textFeatures("responses", "Responses"),
  ...textFeatures("messages", "Messages"),
  "chat batch": metered("Chat", "batch", [["one", answer]]),
  "messages batch": metered("Messages", "batch", [["one", answer]]),
  "messages count": { surface: "Messages", part: "token count", value: 7, isMetered: false } as Feature,
  embeddings: metered("Other tasks", "embeddings", [vector, vector]),
  rerank: metered("Other tasks", "rerank", [
    [0, 1],
    [1, 0.5],
  ]),
  image: metered("Other tasks", "images", Buffer.from("a picture").toString("base64")),
  speech: metered("Other tasks", "speech", "RIFF said"),
  "speech input": metered("Other tasks", "speech of streamed text", "RIFF said"),
  transcription: metered("Other tasks", "transcription", "Hello World"),
  "transcription stream": metered("Other tasks", "streamed transcription", "Hello World"),
  "transcription realtime": metered("Other tasks", "realtime transcription", "Hello World"),
  "chat edit": edited("by chat"),
  "responses edit": edited("by Responses"),
  "messages edit": edited("by Messages"),
  mcp: {
    surface: "MCP",
    part: "list models",
    value: ["fake/chat", "fake/hearing", "fake/pictures", "fake/ranking", "fake/speech", "fake/vectors"],
    isMetered: false,
  } as Feature,
};
export type FeatureName = keyof typeof features;

export interface Client {
  /** Name in the table of docs/clients.md. */
  readonly name: string;
  readonly registry: "npm" | "PyPI";
  readonly package: string;
  /** File in npm/ or python/. */
  readonly program: string;
  /** Folder of the packages; undefined: those that every test run has. */
  readonly home?: "test-npm" | "test-python" | "nightly-python" | "nightly-python-aider" | "nightly-python-openai-2";
  readonly env?: Readonly<Record<string, string>>;
  readonly features: readonly FeatureName[];
}

const chat = ["chat", "chat stream", "chat tools", "chat schema"] as const;
const responses = ["responses", "responses stream", "responses tools", "responses schema"] as const;
const messages = ["messages", "messages stream", "messages tools"] as const;
const media = ["speech", "transcription", "image"] as const;
const ofOpenai = [
  ...chat,
  "chat batch",
  ...responses,
  "embeddings",
  ...media,
  "transcription stream",
  "transcription realtime",
] as const;
const ofAnthropic = [...messages, "messages batch", "messages count"] as const;

const ofNpm = (name: string, packageName: string, program: string, used: readonly FeatureName[], env = {}): Client => ({
  name,
  registry: "npm",
  package: packageName,
  program,
  home: "test-npm",
  env,
  features: used,
});
const ofPython = (
  name: string,
  packageName: string,
  program: string,
  used: readonly FeatureName[],
  home: Client["home"] = "nightly-python",
): Client => ({ name, registry: "PyPI", package: packageName, program, home, features: used });
const vercel = (provider: string, used: readonly FeatureName[]) =>
  ofNpm(`Vercel AI SDK, ${provider}`, `@ai-sdk/${provider}`, "vercel-ai.ts", used, { PROVIDER: provider });
const agent = (name: string, packageName: string, program: string, surface: "chat" | "responses" | "messages") =>
  ofNpm(name, packageName, "coding-agent.ts", [`${surface} edit`], { AGENT: program, SURFACE: surface });

export const clients: readonly Client[] = [
  {
    name: "OpenAI SDK",
    registry: "npm",
    package: "openai",
    program: "openai.ts",
    features: ofOpenai,
  },
  {
    name: "Anthropic SDK",
    registry: "npm",
    package: "@anthropic-ai/sdk",
    program: "anthropic.ts",
    features: ofAnthropic,
  },
  {
    name: "MCP SDK",
    registry: "npm",
    package: "@modelcontextprotocol/client",
    program: "mcp.ts",
    features: ["mcp"],
  },
  {
    name: "OpenAI SDK",
    registry: "PyPI",
    package: "openai",
    program: "openai_client.py",
    features: ofOpenai,
  },
  {
    name: "Anthropic SDK",
    registry: "PyPI",
    package: "anthropic",
    program: "anthropic_client.py",
    features: ofAnthropic,
  },
  vercel("openai", [...chat, ...responses, "embeddings", ...media]),
  vercel("openai-compatible", [...chat, "embeddings", "image"]),
  vercel("anthropic", [...messages, "messages schema"]),
  ofNpm("LangChain, OpenAI", "@langchain/openai", "langchain.ts", [...chat, ...responses, "embeddings"], {
    PROVIDER: "openai",
  }),
  ofNpm("LangChain, Anthropic", "@langchain/anthropic", "langchain.ts", [...messages, "messages schema"], {
    PROVIDER: "anthropic",
  }),
  ofNpm("ElevenLabs SDK", "@elevenlabs/elevenlabs-js", "elevenlabs.ts", ["speech"]),
  ofPython("ElevenLabs SDK", "elevenlabs", "elevenlabs_client.py", ["speech", "speech input"], "test-python"),
  ofNpm("Cohere SDK", "cohere-ai", "cohere.ts", ["rerank"]),
  agent("Codex", "@openai/codex", "codex", "responses"),
  agent("opencode", "opencode-ai", "opencode", "chat"),
  agent("Claude Code", "@anthropic-ai/claude-code", "claude", "messages"),
  ofPython("LangChain, OpenAI", "langchain-openai", "langchain_openai_client.py", [
    ...chat,
    ...responses,
    "embeddings",
  ]),
  ofPython("LangChain, Anthropic", "langchain-anthropic", "langchain_anthropic_client.py", messages),
  ofPython(
    "LlamaIndex",
    "llama-index-llms-openai-like",
    "llama_index_client.py",
    ["chat", "chat stream", "chat tools", "embeddings"],
    "nightly-python-openai-2",
  ),
  ofPython(
    "LlamaIndex, Jina reranker",
    "llama-index-postprocessor-jinaai-rerank",
    "jina_client.py",
    ["rerank"],
    "nightly-python-openai-2",
  ),
  ofPython("LiteLLM", "litellm", "litellm_client.py", [
    ...chat,
    "responses",
    ...messages,
    "embeddings",
    "rerank",
    ...media,
  ]),
  ofPython("llm", "llm", "llm_client.py", ["chat", "chat stream", "chat tools"]),
  ofPython("Haystack", "haystack-ai", "haystack_client.py", ["chat", "chat stream", "chat tools", "embeddings"]),
  ofPython(
    "Instructor",
    "instructor",
    "instructor_client.py",
    ["chat schema", "messages schema"],
    "nightly-python-openai-2",
  ),
  ofPython("DSPy", "dspy", "dspy_client.py", ["chat"]),
  ofPython("Pydantic AI", "pydantic-ai-slim", "pydantic_ai_client.py", [...chat, ...responses, ...messages]),
  ofPython("smolagents", "smolagents", "smolagents_client.py", ["chat", "chat stream", "chat tools"]),
  ofPython("OpenAI Agents SDK", "openai-agents", "openai_agents_client.py", [...chat, ...responses]),
  ofPython("Cohere SDK", "cohere", "cohere_client.py", ["rerank"]),
  ofPython("MCP SDK", "mcp", "mcp_client.py", ["mcp"]),
  ofPython("aider", "aider-chat", "aider_client.py", ["chat edit"], "nightly-python-aider"),
];

/** Clients of which no run exists. */
export const notRun: readonly { readonly name: string; readonly registry: string; readonly reason: string }[] = [
  { name: "Open WebUI", registry: "PyPI", reason: "installs 6.8 GB" },
];
