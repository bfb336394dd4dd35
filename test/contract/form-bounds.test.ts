// Every bound that the description of a form tells, posted as a form says it: texts and files. What misses it by one step is
// refused and named, what stands on it passes. Uploads of files have rows of their own (file-statuses.test.ts).
import { Ajv, type ValidateFunction } from "ajv";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { form, startTaskEdge, type TaskEdge, wav } from "../fakes/task-edge.ts";
import { adasVoice } from "../fakes/voices.ts";
import { edges, type Miss, misses, type Schema } from "./schema-bounds.ts";

type Part = string | Blob;

const sound = new Blob([wav(1)], { type: "audio/wav" });
const picture = new Blob(["png"], { type: "image/png" });
const model = "org/model";

/** Path, the task of the model that is asked, and a form that is taken. */
const asked: readonly (readonly [path: string, task: string, parts: Readonly<Record<string, Part>>])[] = [
  ["/v1/compat/audio/transcriptions", "automatic-speech-recognition", { model, file: sound }],
  ["/v1/compat/audio/translations", "automatic-speech-recognition", { model, file: sound }],
  ["/v1/compat/images/variations", "text-to-image", { model, image: picture }],
  ["/v1/compat/images/edits", "text-to-image", { model, image: picture, prompt: "a hat" }],
  ["/v1/voices/add", "text-to-speech", { name: "Ada", description: "", files: sound }],
  ["/v1/voices/{voice_id}/edit", "text-to-speech", { name: "Ada", description: "" }],
  ["/v1/inference/{model_name}", "text-generation", { input: "Hello" }],
];

/** An address that is looked up, 404 where it is of no model, and spellings that no list ends. */
const furtherRules: ReadonlySet<string> = new Set(["webhook", "model", "output_format"]);
/** Files that only some tasks read, and another name of a part. */
const notAsked: ReadonlySet<string> = new Set([
  "/v1/inference/{model_name} audio",
  "/v1/inference/{model_name} image",
  "/v1/voices/add audio",
]);

let tasks: TaskEdge;
beforeAll(async () => {
  tasks = await startTaskEdge();
  tasks.json({ text: "Hello", data: [] });
});
afterAll(() => tasks?.close());

interface Field {
  readonly name: string;
  readonly schema: Schema & { readonly contentMediaType?: string };
  readonly fits: ValidateFunction;
  readonly isRequired: boolean;
}

function fieldsOf(path: string): readonly Field[] {
  const described = tasks.edge.app.swagger() as unknown as {
    paths: Record<string, { post: { requestBody: { content: Record<string, { schema: Schema }> } } }>;
  };
  const { schema } = described.paths[path]?.post.requestBody.content["multipart/form-data"] ?? {};
  const ajv = new Ajv({ strict: false, discriminator: true });
  return Object.entries(schema?.properties ?? {})
    .filter(([name]) => !notAsked.has(`${path} ${name}`))
    .map(([name, field]) => ({
      name,
      schema: field,
      fits: ajv.compile(field),
      isRequired: schema?.required?.includes(name) ?? false,
    }));
}

async function send(path: string, parts: Readonly<Record<string, Part | readonly string[]>>) {
  const at = path.replace("{model_name}", model).replace("{voice_id}", adasVoice.id);
  const sent = form({});
  for (const [name, part] of Object.entries(parts)) {
    if (typeof part === "string") sent.append(name, part);
    else if (part instanceof Blob) sent.append(name, part, "file.bin");
    else for (const one of part) sent.append(`${name}[]`, one);
  }
  const response = await tasks.send(at, sent);
  const text = await response.text();
  return { status: response.status, text };
}

const typesOf = ({ type, anyOf = [] }: Schema): readonly string[] => [
  ...(type === undefined ? [] : [type].flat()),
  ...anyOf.flatMap(typesOf),
];

/** As parts of a form, where it can be said there. */
function said(schema: Schema, value: unknown): string | readonly string[] | undefined {
  if (value === null) return undefined;
  if (Array.isArray(value)) {
    const isSayable = value.length > 0 && value.length <= 100 && value.every((one) => typeof one === "string");
    return isSayable ? value : undefined;
  }
  if (typeof value !== "object") return String(value);
  return typesOf(schema).includes("object") ? JSON.stringify(value) : undefined;
}

/** What is no text, no list and no file in JSON is some other text in a form. */
function missed(schema: Schema, { value, why, at }: Miss): string | readonly string[] | undefined {
  // Within a field that is sent as JSON, an object stays one.
  const isOfAnotherType =
    at.length === 0 && why === "is object" && !typesOf(schema).some((type) => type === "string" || type === "array");
  return isOfAnotherType ? "none of these" : said(schema, value);
}

const whereOf = (text: string) => (JSON.parse(text).detail?.[0]?.loc as string[] | undefined)?.join(".");

describe.each(asked)("%s", { timeout: 60_000 }, (path, task, parts) => {
  it("refuses a part that misses one bound of its field, and names it", async () => {
    tasks.offer({ task });
    const faults: string[] = [];
    let count = 0;
    const refuses = async (what: string, at: string, sent: Readonly<Record<string, Part | readonly string[]>>) => {
      count += 1;
      const { status, text } = await send(path, sent);
      if (status !== 422 || whereOf(text) !== at) faults.push(`${what}: ${status} ${text.slice(0, 300)}`);
    };
    for (const { name, schema, isRequired } of fieldsOf(path)) {
      const { [name]: _, ...others } = parts;
      if (isRequired) await refuses(`no ${name}`, `body.${name}`, others);
      if (schema.contentMediaType !== undefined) {
        await refuses(`${name} as a text`, `body.${name}`, { ...parts, [name]: "file.bin" });
        continue;
      }
      if (typesOf(schema).includes("string"))
        await refuses(`${name} as a file`, `body.${name}`, { ...parts, [name]: picture });
      for (const miss of misses(schema)) {
        const value = missed(schema, miss);
        if (value === undefined) continue;
        const at = ["body", name, ...miss.at].join(".");
        await refuses(`${name} ${miss.why}, ${JSON.stringify(value).slice(0, 100)}`, at, { ...parts, [name]: value });
      }
    }
    expect(faults).toEqual([]);
    expect(count).toBeGreaterThan(path.endsWith("/edit") ? 4 : 7);
  });

  it("takes what stands on a bound, and each alternative", async () => {
    tasks.offer({ task });
    const faults: string[] = [];
    for (const { name, schema, fits } of fieldsOf(path)) {
      if (furtherRules.has(name) || schema.contentMediaType !== undefined) continue;
      for (const edge of edges(schema)) {
        const value = said(schema, edge);
        if (value === undefined) continue;
        if (!fits(edge)) faults.push(`${name} ${JSON.stringify(edge)} was made as one that fits`);
        const { status, text } = await send(path, { ...parts, [name]: value });
        if ([400, 413, 422, 500].includes(status))
          faults.push(`${name} ${JSON.stringify(value).slice(0, 100)}: ${status} ${text.slice(0, 300)}`);
      }
    }
    expect(faults).toEqual([]);
  });
});
