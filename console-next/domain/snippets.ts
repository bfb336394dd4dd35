// Code snippets for the request of the playground.

interface ChatRequest {
  readonly model: string;
  readonly messages: readonly { readonly role: "system" | "user" | "assistant"; readonly content: string }[];
  readonly max_tokens: number;
  readonly temperature: number;
}

export type Language = "curl" | "Python" | "TypeScript";

export interface SnippetOf {
  /** Without a trailing slash. */
  readonly url: string;
  /** Undefined: the snippet reads it from the environment. */
  readonly key: string | undefined;
  readonly request: ChatRequest;
}

const variable = "STOKER_API_KEY";

export const snippets: Readonly<Record<Language, (of: SnippetOf) => string>> = {
  curl: ({ url, key, request }) =>
    [
      `curl ${inShell(`${url}/v1/chat/completions`)} --no-buffer \\`,
      `  -H "Authorization: Bearer ${key ?? `$${variable}`}" \\`,
      `  -H "Content-Type: application/json" \\`,
      `  -d ${inShell(JSON.stringify({ ...request, stream: true }))}`,
    ].join("\n"),

  Python: ({ url, key, request }) =>
    [
      ...(key ? [] : ["import os", ""]),
      "from openai import OpenAI  # pip install openai",
      "",
      `client = OpenAI(base_url=${quoted(`${url}/v1`)}, api_key=${key ? quoted(key) : `os.environ[${quoted(variable)}]`})`,
      "stream = client.chat.completions.create(",
      `    model=${quoted(request.model)},`,
      "    messages=[",
      ...request.messages.map(
        ({ role, content }) => `        {"role": ${quoted(role)}, "content": ${quoted(content)}},`,
      ),
      "    ],",
      `    max_tokens=${request.max_tokens},`,
      `    temperature=${request.temperature},`,
      "    stream=True,",
      ")",
      "for chunk in stream:",
      "    if chunk.choices:",
      '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
    ].join("\n"),

  TypeScript: ({ url, key, request }) =>
    [
      'import OpenAI from "openai"; // npm install openai',
      "",
      `const client = new OpenAI({ baseURL: ${quoted(`${url}/v1`)}, apiKey: ${key ? quoted(key) : `process.env.${variable}`} });`,
      "const stream = await client.chat.completions.create({",
      `  model: ${quoted(request.model)},`,
      "  messages: [",
      ...request.messages.map(({ role, content }) => `    { role: ${quoted(role)}, content: ${quoted(content)} },`),
      "  ],",
      `  max_tokens: ${request.max_tokens},`,
      `  temperature: ${request.temperature},`,
      "  stream: true,",
      "});",
      'for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");',
    ].join("\n"),
};

/** A JSON string is also valid in Python and TypeScript. */
const quoted = (text: string): string => JSON.stringify(text);
const inShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
