// Code that calls a model of any task by the interface that fits it.
import { snippets } from "./snippets.ts";

export interface Call {
  /** Of the server, without a trailing slash. */
  readonly url: string;
  readonly model: string;
  readonly task: string;
}

export interface CallCode {
  /** Path of the interface. */
  readonly path: string;
  readonly examples: Readonly<Record<"curl" | "Python" | "TypeScript", string>>;
}

type Body = Readonly<Record<string, unknown>>;

const quoted = (value: unknown): string => JSON.stringify(value);
const inShell = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;
/** The same value as a Python literal. */
const inPython = (value: unknown): string =>
  JSON.stringify(value)
    .replaceAll(/\btrue\b/g, "True")
    .replaceAll(/\bfalse\b/g, "False")
    .replaceAll(/\bnull\b/g, "None");

export function callCode({ url, model, task }: Call): CallCode {
  switch (task) {
    case "text-generation":
    case "text2text-generation": {
      const request = {
        model,
        messages: [{ role: "user", content: "Write a haiku about GPUs." }],
        max_tokens: 256,
        temperature: 0.7,
      } as const;
      const of = { url, key: undefined, request };
      return {
        path: "/v1/chat/completions",
        examples: { curl: snippets.curl(of), Python: snippets.Python(of), TypeScript: snippets.TypeScript(of) },
      };
    }
    case "embeddings":
      return byOpenAi(
        url,
        "/v1/embeddings",
        { model, input: ["First text", "Second text"] },
        {
          python: (args) => `result = client.embeddings.create(${args})\nprint(len(result.data[0].embedding))`,
          typescript: (args) =>
            `const result = await client.embeddings.create(${args});\nconsole.log(result.data[0]?.embedding.length);`,
        },
      );
    case "reranker":
      return byJson(url, "/v1/rerank", {
        model,
        query: "What is a GPU?",
        documents: ["A graphics processor.", "A fruit."],
      });
    case "text-to-image":
      return byOpenAi(
        url,
        "/v1/images/generations",
        { model, prompt: "A lighthouse at dusk", n: 1, size: "512x512", response_format: "b64_json" },
        {
          python: (args) =>
            `import base64\nresult = client.images.generate(${args})\nopen("image.png", "wb").write(base64.b64decode(result.data[0].b64_json))`,
          typescript: (args) =>
            `const result = await client.images.generate(${args});\nconsole.log(result.data?.[0]?.b64_json?.length);`,
        },
      );
    case "text-to-speech":
      return speech(url, model);
    case "automatic-speech-recognition":
      return transcription(url, model);
    default:
      return byJson(url, `/v1/inference/${model}`, inputOf(task));
  }
}

function inputOf(task: string): Body {
  switch (task) {
    case "question-answering":
      return { question: "Who wrote it?", context: "Ada wrote it." };
    case "zero-shot-classification":
      return { input: "The train is late.", candidate_labels: ["travel", "food"] };
    case "fill-mask":
      return { input: "Paris is the [MASK] of France." };
    case "image-classification":
    case "object-detection":
      return { image: "https://example.com/image.jpg" };
    case "zero-shot-image-classification":
      return { image: "https://example.com/image.jpg", candidate_labels: ["cat", "dog"] };
    default:
      return { input: "A text to classify." };
  }
}

const curlOf = (url: string, path: string, body: Body, more = ""): string =>
  [
    `curl ${inShell(url + path)} \\`,
    `  -H "Authorization: Bearer $STOKER_API_KEY" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d ${inShell(JSON.stringify(body))}${more}`,
  ].join("\n");

const pythonClient = (url: string): string =>
  [
    "import os",
    "",
    "from openai import OpenAI  # pip install openai",
    "",
    `client = OpenAI(base_url=${quoted(`${url}/v1`)}, api_key=os.environ["STOKER_API_KEY"])`,
  ].join("\n");
const typescriptClient = (url: string): string =>
  [
    'import OpenAI from "openai"; // npm install openai',
    "",
    `const client = new OpenAI({ baseURL: ${quoted(`${url}/v1`)}, apiKey: process.env.STOKER_API_KEY });`,
  ].join("\n");

function byOpenAi(
  url: string,
  path: string,
  body: Body,
  call: Readonly<Record<"python" | "typescript", (args: string) => string>>,
): CallCode {
  const args = Object.entries(body)
    .map(([name, value]) => `${name}=${inPython(value)}`)
    .join(", ");
  return {
    path,
    examples: {
      curl: curlOf(url, path, body),
      Python: `${pythonClient(url)}\n${call.python(args)}`,
      TypeScript: `${typescriptClient(url)}\n${call.typescript(JSON.stringify(body))}`,
    },
  };
}

const byJson = (url: string, path: string, body: Body): CallCode => ({
  path,
  examples: {
    curl: curlOf(url, path, body),
    Python: [
      "import os",
      "",
      "import requests  # pip install requests",
      "",
      "answer = requests.post(",
      `    ${quoted(url + path)},`,
      `    headers={"Authorization": f"Bearer {os.environ['STOKER_API_KEY']}"},`,
      `    json=${inPython(body)},`,
      "    timeout=60,",
      ")",
      "answer.raise_for_status()",
      "print(answer.json())",
    ].join("\n"),
    TypeScript: [
      `const answer = await fetch(${quoted(url + path)}, {`,
      '  method: "POST",',
      "  headers: {",
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is code.
      "    authorization: `Bearer ${process.env.STOKER_API_KEY}`,",
      '    "content-type": "application/json",',
      "  },",
      `  body: JSON.stringify(${JSON.stringify(body)}),`,
      "});",
      "if (!answer.ok) throw new Error(await answer.text());",
      "console.log(await answer.json());",
    ].join("\n"),
  },
});

function speech(url: string, model: string): CallCode {
  const body = { model, input: "Hello from your own GPUs.", voice: "af_heart", response_format: "wav" };
  return {
    path: "/v1/audio/speech",
    examples: {
      curl: curlOf(url, "/v1/audio/speech", body, " \\\n  -o speech.wav"),
      Python: `${pythonClient(url)}\nwith client.audio.speech.with_streaming_response.create(${Object.entries(body)
        .map(([name, value]) => `${name}=${inPython(value)}`)
        .join(", ")}) as answer:\n    answer.stream_to_file("speech.wav")`,
      TypeScript: `import { writeFile } from "node:fs/promises";\n${typescriptClient(url)}\nconst answer = await client.audio.speech.create(${JSON.stringify(body)});\nawait writeFile("speech.wav", Buffer.from(await answer.arrayBuffer()));`,
    },
  };
}

const transcription = (url: string, model: string): CallCode => ({
  path: "/v1/audio/transcriptions",
  examples: {
    curl: [
      `curl ${inShell(`${url}/v1/audio/transcriptions`)} \\`,
      `  -H "Authorization: Bearer $STOKER_API_KEY" \\`,
      "  -F file=@speech.wav \\",
      `  -F ${inShell(`model=${model}`)}`,
    ].join("\n"),
    Python: `${pythonClient(url)}\nwith open("speech.wav", "rb") as file:\n    print(client.audio.transcriptions.create(model=${quoted(model)}, file=file).text)`,
    TypeScript: `import { createReadStream } from "node:fs";\n${typescriptClient(url)}\nconst result = await client.audio.transcriptions.create({ model: ${quoted(model)}, file: createReadStream("speech.wav") });\nconsole.log(result.text);`,
  },
});
