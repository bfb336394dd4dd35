// Every bound that the description of an inference request tells, in lists and in objects within objects: what misses it by one
// step is refused and named, what stands on it passes.
import { Ajv, type ValidateFunction } from "ajv";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTaskEdge, type TaskEdge } from "../fakes/task-edge.ts";
import { edges, type Miss, misses, type Schema } from "./schema-bounds.ts";

/** Path, the task of the model that is asked, and a body that is taken. */
const asked: readonly (readonly [path: string, task: string, body: Readonly<Record<string, unknown>>])[] = [
  ["/v1/completions", "text-generation", { model: "org/model", prompt: "Hello" }],
  [
    "/v1/compat/chat/completions",
    "text-generation",
    { model: "org/model", messages: [{ role: "user", content: "Hello" }] },
  ],
  ["/v1/compat/embeddings", "embeddings", { model: "org/model", input: "Hello" }],
  ["/v1/compat/audio/speech", "text-to-speech", { model: "org/model", input: "Hello" }],
  ["/v1/text-to-speech/{voice_id}", "text-to-speech", { model_id: "org/model", text: "Hello" }],
  ["/v1/compat/images/generations", "text-to-image", { model: "org/model", prompt: "a cat" }],
  ["/v1/inference/{model_name}", "text-generation", { input: "Hello" }],
];

/** What stands on a bound of the schema and is refused for a reason that no schema says. */
const furtherRules: ReadonlySet<string> = new Set([
  // An address, looked up.
  "webhook",
  // 404 where it is of no model.
  "model",
  "model_id",
  "models",
  // Has spellings that no list ends.
  "output_format",
]);

let tasks: TaskEdge;
beforeAll(async () => {
  tasks = await startTaskEdge();
});
afterAll(() => tasks?.close());

function fieldsOf(path: string): [name: string, schema: Schema, fits: ValidateFunction][] {
  const described = tasks.edge.app.swagger() as unknown as {
    paths: Record<string, { post: { requestBody: { content: Record<string, { schema: Schema }> } } }>;
  };
  const { schema } = described.paths[path]?.post.requestBody.content["application/json"] ?? {};
  const ajv = new Ajv({ strict: false, discriminator: true });
  return Object.entries(schema?.properties ?? {}).map(([name, field]) => [name, field, ajv.compile(field)]);
}

async function ask(path: string, body: object) {
  const at = path.replace("{model_name}", "org/model").replace("{voice_id}", "v");
  const answer = await tasks.edge.post(at, body);
  const text = await answer.text();
  return { status: answer.status, text };
}

/** Native inference takes one value for a list of one. */
const isNoMiss = (path: string, schema: Schema, { at, why }: Miss) =>
  path.startsWith("/v1/inference/") && [schema.type].flat().includes("array") && at.length === 0 && why === "is object";

const short = (value: unknown) => JSON.stringify(value).slice(0, 200);

describe.each(asked)("%s", { timeout: 60_000 }, (path, task, body) => {
  it("refuses what misses one bound of a field, however deep, and names it", async () => {
    tasks.offer({ task });
    const faults: string[] = [];
    let count = 0;
    for (const [name, schema, fits] of fieldsOf(path)) {
      for (const miss of misses(schema)) {
        if (isNoMiss(path, schema, miss)) continue;
        const { value, at, why } = miss;
        count += 1;
        if (fits(value)) faults.push(`${name} ${short(value)} fits, but was made as one that ${why}`);
        const { status, text } = await ask(path, { ...body, [name]: value });
        const told = status === 422 ? (JSON.parse(text).detail[0].loc as string[]).join(".") : undefined;
        if (told !== ["body", name, ...at].join("."))
          faults.push(`${[name, ...at].join(".")} ${why}, ${short(value)}: ${status} ${text.slice(0, 300)}`);
      }
    }
    expect(faults).toEqual([]);
    expect(count).toBeGreaterThan(5);
  });

  it("takes what stands on a bound, and each alternative", async () => {
    tasks.offer({ task });
    expect((await ask(path, body)).status).not.toBe(422);
    const faults: string[] = [];
    for (const [name, schema, fits] of fieldsOf(path)) {
      if (furtherRules.has(name)) continue;
      for (const value of edges(schema)) {
        // Each task needs some of the fields that all of them may leave out.
        if (value === null && name in body) continue;
        if (!fits(value)) faults.push(`${name} ${short(value)} was made as one that fits`);
        const { status, text } = await ask(path, { ...body, [name]: value });
        if (status === 422 || status === 400 || status === 500)
          faults.push(`${name} ${short(value)}: ${status} ${text.slice(0, 300)}`);
      }
    }
    expect(faults).toEqual([]);
  });
});

it("finds more than a hundred bounds of a chat", () => {
  const found = fieldsOf("/v1/compat/chat/completions").map(([name, schema]): [string, readonly Miss[]] => [
    name,
    misses(schema),
  ]);
  const deep = found.flatMap(([, all]) => all.filter(({ at }) => at.length > 1));
  expect(found.flatMap(([, all]) => all).length).toBeGreaterThan(100);
  expect(deep.length).toBeGreaterThan(60);
});
