// Code that calls a model of any task by the interface that fits it.
import { onlyVoiceOf } from "../../proto/piper-voice.ts";
import { inPython, inShell, inTypeScript, quoted } from "./literals.ts";
import { chatExamples } from "./snippets.ts";

export interface Call {
  /** URL of the server, without a trailing slash. */
  readonly url: string;
  readonly model: string;
  readonly task: string;
  /** Fields of the request that replace those of the example. */
  readonly body?: Body;
}

export interface CallCode {
  /** Path of the interface. */
  readonly path: string;
  readonly examples: Readonly<Record<"curl" | "Python" | "TypeScript", string>>;
}

type Body = Readonly<Record<string, unknown>>;

export function callCode({ url, model, task, body = {} }: Call): CallCode {
  switch (task) {
    case "text-generation":
    case "text2text-generation":
    case "image-text-to-text": {
      const request = {
        model,
        messages: [{ role: "user", content: "Write a haiku about GPUs." }],
        max_tokens: 256,
        temperature: 0.7,
      } as const;
      return { path: "/v1/chat/completions", examples: chatExamples("chat", { url, key: undefined, request }) };
    }
    case "embeddings":
      return byOpenAi(
        url,
        "/v1/embeddings",
        { model, input: ["First text", "Second text"], ...body },
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
        ...body,
      });
    case "text-to-image":
      return byOpenAi(
        url,
        "/v1/images/generations",
        { model, prompt: "A lighthouse at dusk", n: 1, size: "512x512", response_format: "b64_json", ...body },
        {
          python: (args) =>
            `result = client.images.generate(${args})\nfor index, image in enumerate(result.data):\n    open(f"image-{index}.png", "wb").write(base64.b64decode(image.b64_json))`,
          typescript: (args) =>
            `const result = await client.images.generate(${args});\nfor (const [index, image] of (result.data ?? []).entries())\n  await writeFile(\`image-\${index}.png\`, Buffer.from(image.b64_json ?? "", "base64"));`,
          pythonImport: "import base64",
          typescriptImport: 'import { writeFile } from "node:fs/promises";',
        },
      );
    case "text-to-speech":
      return speech(url, {
        model,
        input: "Hello from your own GPUs.",
        voice: onlyVoiceOf(model) ?? "af_heart",
        response_format: "wav",
        ...body,
      });
    case "automatic-speech-recognition":
      return transcription(url, { model, ...body });
    default:
      return byJson(url, `/v1/inference/${model}`, { ...inputOf(task), ...body });
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

/** Keyword arguments, one a line if there are several. */
function keywordsOf(body: Body): string {
  const parts = Object.entries(body).map(([name, value]) => `${name}=${inPython(value, 4)}`);
  return parts.length < 2 ? parts.join("") : `\n${parts.map((part) => `    ${part},\n`).join("")}`;
}

interface ClientCall {
  /** Receives the arguments. */
  readonly python: (args: string) => string;
  readonly typescript: (args: string) => string;
  readonly pythonImport?: string;
  readonly typescriptImport?: string;
}

const lines = (...all: readonly (string | undefined)[]): string => all.filter((one) => one !== undefined).join("\n");

const byOpenAi = (url: string, path: string, body: Body, call: ClientCall): CallCode => ({
  path,
  examples: {
    curl: curlOf(url, path, body),
    Python: lines(call.pythonImport, "import os", "", pythonClient(url), call.python(keywordsOf(body))),
    TypeScript: lines(call.typescriptImport, typescriptClient(url), call.typescript(inTypeScript(body))),
  },
});

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
      `    json=${inPython(body, 4)},`,
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
      `  body: JSON.stringify(${inTypeScript(body, 2)}),`,
      "});",
      "if (!answer.ok) throw new Error(await answer.text());",
      "console.log(await answer.json());",
    ].join("\n"),
  },
});

function speech(url: string, body: Body): CallCode {
  const file = `speech.${typeof body["response_format"] === "string" ? body["response_format"] : "wav"}`;
  const path = "/v1/audio/speech";
  return {
    path,
    examples: {
      curl: curlOf(url, path, body, ` \\\n  --fail -o ${file}`),
      Python: lines(
        "import os",
        "",
        pythonClient(url),
        `with client.audio.speech.with_streaming_response.create(${keywordsOf(body)}) as answer:`,
        `    answer.stream_to_file(${quoted(file)})`,
      ),
      TypeScript: lines(
        'import { writeFile } from "node:fs/promises";',
        typescriptClient(url),
        `const answer = await client.audio.speech.create(${inTypeScript(body)});`,
        `await writeFile(${quoted(file)}, Buffer.from(await answer.arrayBuffer()));`,
      ),
    },
  };
}

function transcription(url: string, body: Body): CallCode {
  const path = "/v1/audio/transcriptions";
  const result = body["response_format"] === "srt" || body["response_format"] === "vtt" ? "result" : "result.text";
  return {
    path,
    examples: {
      curl: [
        `curl ${inShell(url + path)} \\`,
        `  -H "Authorization: Bearer $STOKER_API_KEY" \\`,
        "  -F file=@speech.wav \\",
        Object.entries(body)
          .map(([name, value]) => `  -F ${inShell(`${name}=${value}`)}`)
          .join(" \\\n"),
      ].join("\n"),
      Python: lines(
        "import os",
        "",
        pythonClient(url),
        'with open("speech.wav", "rb") as file:',
        `    result = client.audio.transcriptions.create(file=file, ${Object.entries(body)
          .map(([name, value]) => `${name}=${inPython(value)}`)
          .join(", ")})`,
        `print(${result})`,
      ),
      TypeScript: lines(
        'import { createReadStream } from "node:fs";',
        typescriptClient(url),
        "const result = await client.audio.transcriptions.create({",
        '  file: createReadStream("speech.wav"),',
        ...Object.entries(body).map(([name, value]) => `  ${name}: ${inTypeScript(value, 2)},`),
        "});",
        `console.log(${result});`,
      ),
    },
  };
}
