// Code snippets for a chat, in the three dialects of the API.
import type { ChatRequest } from "./chat.ts";
import { asMessages, asResponses } from "./chat-dialects.ts";
import { inPython, inShell, inTypeScript, quoted } from "./literals.ts";

export type Language = "curl" | "Python" | "TypeScript";

/** Chat Completions and Responses are OpenAI's, Messages is Anthropic's. */
export type Dialect = "chat" | "responses" | "messages";

export interface SnippetOf {
  /** Without a trailing slash. */
  readonly url: string;
  /** Undefined: the snippet reads it from the environment. */
  readonly key: string | undefined;
  readonly request: ChatRequest;
}

type Body = Readonly<Record<string, unknown>>;
type Snippets = Readonly<Record<Language, (of: SnippetOf) => string>>;

const variable = "STOKER_API_KEY";

const curlOf = (path: string, { url, key }: SnippetOf, body: Body): string =>
  [
    `curl ${inShell(url + path)} --no-buffer \\`,
    `  -H "Authorization: Bearer ${key ?? `$${variable}`}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d ${inShell(JSON.stringify({ ...body, stream: true }))}`,
  ].join("\n");

const keyInPython = (key: string | undefined): string => (key ? quoted(key) : `os.environ[${quoted(variable)}]`);
const keyInTypeScript = (key: string | undefined): string => (key ? quoted(key) : `process.env.${variable}`);

const keywords = (body: Body, indent: number): readonly string[] =>
  Object.entries(body)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${" ".repeat(indent)}${name}=${inPython(value, indent)},`);

const openAiPython = ({ url, key }: SnippetOf): readonly string[] => [
  ...(key ? [] : ["import os", ""]),
  "from openai import OpenAI  # pip install openai",
  "",
  `client = OpenAI(base_url=${quoted(`${url}/v1`)}, api_key=${keyInPython(key)})`,
];

const openAiTypeScript = ({ url, key }: SnippetOf): readonly string[] => [
  'import OpenAI from "openai"; // npm install openai',
  "",
  `const client = new OpenAI({ baseURL: ${quoted(`${url}/v1`)}, apiKey: ${keyInTypeScript(key)} });`,
];

/** Chat Completions. */
export const snippets: Snippets = {
  curl: (of) => curlOf("/v1/chat/completions", of, { ...of.request }),
  Python: (of) =>
    [
      ...openAiPython(of),
      "stream = client.chat.completions.create(",
      ...keywords({ ...of.request, stream: true }, 4),
      ")",
      "for chunk in stream:",
      "    if chunk.choices:",
      '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
    ].join("\n"),
  TypeScript: (of) =>
    [
      ...openAiTypeScript(of),
      `const stream = await client.chat.completions.create(${inTypeScript({ ...of.request, stream: true })});`,
      'for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");',
    ].join("\n"),
};

const responses: Snippets = {
  curl: (of) => curlOf("/v1/responses", of, asResponses(of.request)),
  Python: (of) =>
    [
      ...openAiPython(of),
      "stream = client.responses.create(",
      ...keywords({ ...asResponses(of.request), stream: true }, 4),
      ")",
      "for event in stream:",
      '    if event.type == "response.output_text.delta":',
      '        print(event.delta, end="", flush=True)',
    ].join("\n"),
  TypeScript: (of) =>
    [
      ...openAiTypeScript(of),
      `const stream = await client.responses.create(${inTypeScript({ ...asResponses(of.request), stream: true })});`,
      'for await (const event of stream) if (event.type === "response.output_text.delta") process.stdout.write(event.delta);',
    ].join("\n"),
};

const messages: Snippets = {
  curl: (of) => curlOf("/v1/messages", of, asMessages(of.request)),
  Python: (of) =>
    [
      ...(of.key ? [] : ["import os", ""]),
      "from anthropic import Anthropic  # pip install anthropic",
      "",
      `client = Anthropic(base_url=${quoted(of.url)}, api_key=${keyInPython(of.key)})`,
      "with client.messages.stream(",
      ...keywords(asMessages(of.request), 4),
      ") as stream:",
      "    for text in stream.text_stream:",
      '        print(text, end="", flush=True)',
    ].join("\n"),
  TypeScript: (of) =>
    [
      'import Anthropic from "@anthropic-ai/sdk"; // npm install @anthropic-ai/sdk',
      "",
      `const client = new Anthropic({ baseURL: ${quoted(of.url)}, apiKey: ${keyInTypeScript(of.key)} });`,
      `const stream = client.messages.stream(${inTypeScript(asMessages(of.request))});`,
      'stream.on("text", (text) => process.stdout.write(text));',
      "await stream.finalMessage();",
    ].join("\n"),
};

const byDialect: Readonly<Record<Dialect, Snippets>> = { chat: snippets, responses, messages };

export function chatExamples(dialect: Dialect, of: SnippetOf): Readonly<Record<Language, string>> {
  const { curl, Python, TypeScript } = byDialect[dialect];
  return { curl: curl(of), Python: Python(of), TypeScript: TypeScript(of) };
}
