// Schema records against what they describe: examples and real answers pass them, and every bound of a field is the one that
// the endpoint itself refuses.
import { Ajv } from "ajv";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startFakeEngine } from "../fakes/engine.ts";
import { apiKey, servedModel } from "../fakes/ports.ts";
import { form, startTaskEdge, type TaskEdge, wav } from "../fakes/task-edge.ts";

interface Field {
  readonly name: string;
  readonly ftype: string;
  readonly parent: string;
  readonly allowed?: readonly unknown[];
  readonly examples: readonly unknown[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
}
interface Schemas {
  readonly fields_in: readonly Field[];
  readonly schema_in: { readonly description: string; readonly required?: readonly string[] };
  readonly schema_out: { readonly examples: readonly unknown[] };
  readonly schema_stream: object;
}

const voices = ["create-voice", "read-voice", "update-voice", "delete-voice", "list-voices"];
/** Every task with the keys of its variants, beside `default` and `ai-sdk`. */
const keysOf: Readonly<Record<string, readonly string[]>> = {
  "text-generation": ["compat-completions", "compat-chat-completions"],
  embeddings: ["compat-embeddings"],
  reranker: [],
  "automatic-speech-recognition": ["compat-speech-to-text"],
  "text-to-speech": ["compat-tts", "voice-compat-tts", ...voices],
  "text-to-image": ["compat-images", "compat-images-variations", "compat-images-edits"],
  "text-classification": [],
  "zero-shot-classification": [],
  "token-classification": [],
  "fill-mask": [],
  "question-answering": [],
  "image-classification": [],
  "zero-shot-image-classification": [],
  "object-detection": [],
};
const variants = Object.entries(keysOf).flatMap(([task, keys]) =>
  ["default", ...keys, "ai-sdk"].map((key) => [task, key] as const),
);

let tasks: TaskEdge;
let engine: Awaited<ReturnType<typeof startFakeEngine>>;
let texts: TaskEdge;
beforeAll(async () => {
  tasks = await startTaskEdge();
  engine = await startFakeEngine({ models: ["as-served"] });
  texts = await startTaskEdge(engine.origin);
  texts.offer({ rates: servedModel().rates });
});
afterAll(async () => {
  await tasks?.close();
  await texts?.close();
  await engine?.close();
});

async function schemasOf(task: string, key: string, edge = tasks): Promise<Schemas> {
  if (edge === tasks) edge.offer({ task });
  const answer = await fetch(`${edge.edge.url}/models/org/model/schema/${key}`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return JSON.parse(text) as Schemas;
}

/** What does not fit; undefined: it does. */
function misfit(schema: object, value: unknown): string | undefined {
  const ajv = new Ajv({ strict: false, discriminator: true, allErrors: true });
  const validate = ajv.compile(schema);
  return validate(value) ? undefined : `${ajv.errorsText(validate.errors)} in ${JSON.stringify(value).slice(0, 400)}`;
}

const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };
const file = new Blob([wav(1)]);
const ownFields = ({ fields_in }: Schemas) => fields_in.filter(({ parent }) => parent === "");

/** A request that would be taken: the examples of its fields, and what has none. */
function usualRequest({ fields_in, schema_in: { required = [] } }: Schemas): Record<string, unknown> {
  const own = fields_in.filter(({ parent }) => parent === "");
  return Object.fromEntries(
    own
      .filter(({ name, examples }) => examples.length > 0 || required.includes(name))
      .map(({ name, ftype, examples: [example] }) => {
        if (example !== undefined) return [name, example];
        return [name, ftype === "file" ? file : name === "model" ? "org/model" : "text"];
      }),
  );
}

/** By the path that the schema names; with a file as a form. */
async function ask({ schema_in }: Schemas, request: Record<string, unknown>) {
  const path = schema_in.description
    .replace(/^POST /, "")
    .replace("{model_name}", "org/model")
    .replace("{voice_id}", "v");
  const hasFile = Object.values(request).some((value) => value instanceof Blob);
  // In all its digits where it is beyond 2^53: the edge reads such a number exactly.
  const whole = path.startsWith("/v1/text-to-speech") ? { model_id: "org/model", ...request } : request;
  const written = JSON.stringify(whole, (_, value) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? rawJson(BigInt(value).toString()) : value,
  );
  const parts = Object.entries(request).map(([name, value]) => [
    name,
    value instanceof Blob || typeof value === "string" ? value : JSON.stringify(value),
  ]);
  const answer = hasFile
    ? await tasks.send(path, form(Object.fromEntries(parts)))
    : await tasks.edge.post(path, written);
  const text = await answer.text();
  return {
    status: answer.status,
    text,
    loc: () => JSON.parse(text).detail?.[0]?.loc?.slice(1) as string[] | undefined,
  };
}

/** Values just beyond each bound of a field, and those that stand on it where it takes them. */
function bounds(field: Field): { readonly beyond: readonly unknown[]; readonly within: readonly unknown[] } {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, allowed, ftype } = field;
  // Beyond 2^53 a step of one is none.
  const step = (bound: number) => (ftype === "integer" ? Math.max(1, Math.abs(bound) * 2 ** -52) : 0.001);
  return {
    beyond: [
      ...(minimum === undefined ? [] : [minimum - step(minimum)]),
      ...(maximum === undefined ? [] : [maximum + step(maximum)]),
      ...(exclusiveMinimum === undefined ? [] : [exclusiveMinimum]),
      ...(exclusiveMaximum === undefined ? [] : [exclusiveMaximum]),
      ...(allowed === undefined ? [] : ["none of these"]),
    ],
    within: [minimum, maximum, ...(allowed ?? [])].filter((value) => value !== undefined),
  };
}

describe("the schemas of each way to ask a model", () => {
  it.each(variants)(
    "of %s by %s are what its example answer fits, and what its example request fits",
    async (task, key) => {
      const schemas = await schemasOf(task, key);
      const [example] = schemas.schema_out.examples;
      expect(example).toBeDefined();
      expect(misfit(schemas.schema_out, example)).toBeUndefined();
      expect(misfit(schemas.schema_in, usualRequest(schemas))).toBeUndefined();
      expect(misfit(schemas.schema_out, task === "text-to-speech" ? 1 : { nothing: true })).toBeDefined();
    },
  );

  it("offers exactly the interface's variants", async () => {
    const all = new Set(variants.map(([, key]) => key));
    expect([...all].sort()).toEqual(
      [
        ...["default", "compat-completions", "compat-chat-completions", "compat-embeddings", "compat-speech-to-text"],
        ...["compat-tts", "compat-images", "compat-images-variations", "compat-images-edits", "voice-compat-tts"],
        ...[...voices, "ai-sdk"],
      ].sort(),
    );
    expect(all.size).toBe(16);
    for (const [task, keys] of Object.entries(keysOf)) {
      tasks.offer({ task });
      const record = await fetch(`${tasks.edge.url}/models/org/model`, {
        headers: { authorization: `Bearer ${apiKey}` },
      });
      const { schemas } = (await record.json()) as { schemas: { key: string; url: string }[] };
      expect(schemas.map(({ key }) => key)).toEqual(["default", ...keys, "ai-sdk"]);
    }
  });
});

describe("a bound of a field", () => {
  // The engine answers nothing useful: only whether the edge lets a request pass is asked here.
  const asked = variants.filter(([, key]) => !voices.includes(key) && key !== "ai-sdk");

  it.each(asked)(
    "of %s by %s is the one that the endpoint refuses, and what stands on it passes",
    async (task, key) => {
      const schemas = await schemasOf(task, key);
      const usual = usualRequest(schemas);
      const plain = await ask(schemas, usual);
      expect(plain.status, plain.text).not.toBe(422);
      const wrong: string[] = [];
      for (const field of ownFields(schemas)) {
        const { beyond, within } = bounds(field);
        for (const value of beyond) {
          const answer = await ask(schemas, { ...usual, [field.name]: value });
          if (answer.status !== 422 || answer.loc()?.[0] !== field.name)
            wrong.push(`${field.name} ${String(value)}: ${answer.status} ${answer.text}`);
        }
        for (const value of within) {
          const answer = await ask(schemas, { ...usual, [field.name]: value });
          if (answer.status === 422) wrong.push(`${field.name} ${String(value)}: ${answer.text}`);
        }
      }
      expect(wrong).toEqual([]);
    },
  );

  it("finds more than twenty fields of a text", async () => {
    const schemas = await schemasOf("text-generation", "compat-chat-completions");
    expect(ownFields(schemas).flatMap((field) => bounds(field).beyond).length).toBeGreaterThan(20);
  });

  it.each(asked)("of %s by %s: a field that is required is missed by name", async (task, key) => {
    const schemas = await schemasOf(task, key);
    const usual = usualRequest(schemas);
    const required = schemas.schema_in.required ?? [];
    for (const name of required) {
      const { [name]: _, ...rest } = usual;
      const answer = await ask(schemas, rest);
      expect([answer.status, answer.loc()], `${name}: ${answer.text}`).toEqual([422, [name]]);
    }
  });
});

it("writes a bound beyond 2^53 with all digits", async () => {
  tasks.offer({});
  const headers = { authorization: `Bearer ${apiKey}` };
  const answer = await fetch(`${tasks.edge.url}/models/org/model/schema/compat-completions`, { headers });
  const text = await answer.text();
  expect(text.match(/"(?:minimum":-9223372036854775808|exclusiveMaximum":18446744073709551616)[,}]/g)).toHaveLength(4);
});

describe("a real answer", () => {
  const post = async (path: string, body: object) => {
    const answer = await texts.edge.post(path, body);
    const text = await answer.text();
    expect(answer.status, text).toBe(200);
    return text;
  };
  const events = (text: string) =>
    text
      .trim()
      .split("\n\n")
      .map((event) => event.slice(6))
      .filter((data) => data !== "[DONE]")
      .map((data) => JSON.parse(data) as unknown);
  const message = { model: "org/model", messages: [{ role: "user", content: "Hello" }], max_tokens: 5 };

  it.each([
    ["default", "/v1/inference/org/model", { input: "Hello", max_new_tokens: 5 }],
    ["compat-completions", "/v1/completions", { model: "org/model", prompt: "Hello", max_tokens: 5 }],
    ["compat-chat-completions", "/v1/chat/completions", message],
    ["ai-sdk", "/v1/chat/completions", message],
  ])("of a text by %s fits its schema, and so does every event of its stream", async (key, path, body) => {
    const { schema_out, schema_stream } = await schemasOf("text-generation", key, texts);
    expect(misfit(schema_out, JSON.parse(await post(path, body)))).toBeUndefined();
    const streams = [
      { ...body, stream: true },
      { ...body, stream: true, stream_options: { include_usage: true } },
    ];
    for (const request of key === "default" ? streams.slice(0, 1) : streams) {
      const told = events(await post(path, request));
      expect(told.length).toBeGreaterThan(1);
      for (const event of told) expect(misfit(schema_stream as object, event)).toBeUndefined();
    }
  });

  it.each([
    ["embeddings", "default", "/v1/inference/org/model", { inputs: ["a"] }, { data: [{ embedding: [1, 0.5] }] }],
    [
      "embeddings",
      "compat-embeddings",
      "/v1/embeddings",
      { model: "org/model", input: "a" },
      {
        object: "list",
        data: [{ object: "embedding", index: 0, embedding: [1] }],
        model: "m",
        usage: { prompt_tokens: 1, total_tokens: 1 },
      },
    ],
    [
      "reranker",
      "default",
      "/v1/inference/org/model",
      { queries: ["q"], documents: ["a"] },
      { results: [{ index: 0, relevance_score: 0.9 }] },
    ],
    [
      "text-to-image",
      "default",
      "/v1/inference/org/model",
      { prompt: "a cat", seed: 7 },
      { created: 1, data: [{ b64_json: "iVBORw0KGgo=" }] },
    ],
    [
      "text-to-image",
      "compat-images",
      "/v1/images/generations",
      { model: "org/model", prompt: "a cat" },
      { created: 1, data: [{ b64_json: "iVBORw0KGgo=" }] },
    ],
    [
      "question-answering",
      "default",
      "/v1/inference/org/model",
      { question: "q", context: "c" },
      { answer: "c", score: 0.5, start: 0, end: 1 },
    ],
  ])("of %s by %s fits its schema", async (task, key, path, body, told) => {
    const { schema_out } = await schemasOf(task, key);
    tasks.json({ usage: { prompt_tokens: 3, total_tokens: 3 }, ...told });
    const answer = await tasks.edge.post(path, body);
    const text = await answer.text();
    expect(answer.status, text).toBe(200);
    expect(misfit(schema_out, JSON.parse(text))).toBeUndefined();
  });

  it("of speech and of what was heard fits its schema", async () => {
    const spoken = await schemasOf("text-to-speech", "default");
    tasks.engine.answer({ contentType: "audio/wav", pieces: ["RIFF"] });
    const said = await tasks.edge.post("/v1/inference/org/model", { text: "Hello" });
    expect(misfit(spoken.schema_out, await said.json())).toBeUndefined();
    const heard = await schemasOf("automatic-speech-recognition", "default");
    tasks.json({ text: "Hi", duration: 1, segments: [{ id: 0, start: 0, end: 1, text: "Hi" }], words: [] });
    const answer = await tasks.send("/v1/inference/org/model", form({ audio: file }));
    expect(misfit(heard.schema_out, await answer.json())).toBeUndefined();
    const compat = await schemasOf("automatic-speech-recognition", "compat-speech-to-text");
    const plain = await tasks.send("/v1/audio/transcriptions", form({ file, model: "org/model" }));
    expect(misfit(compat.schema_out, await plain.json())).toBeUndefined();
  });
});
