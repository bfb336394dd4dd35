// Every bound that the description of a JSON body beside inference's tells (those: nested-bounds.test.ts): what misses it by one
// step is refused and named, before anything is done. Each body is the description's own example with one value changed.
import { Ajv } from "ajv";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { bodyExamples } from "../../control-plane/http/docs/body-examples.ts";
import { adminKey, fakePorts } from "../fakes/ports.ts";
import { misses, type Schema } from "./schema-bounds.ts";

let app: Awaited<ReturnType<typeof createHttp>>;
beforeAll(async () => {
  app = await createHttp(fakePorts().deps);
});
afterAll(() => app?.close());

interface Operation {
  readonly tags?: readonly string[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
}

function operationOf(name: string): Operation | undefined {
  const [method = "", path = ""] = name.split(" ");
  return (app.swagger().paths as Record<string, Record<string, Operation>>)[path]?.[method.toLowerCase()];
}

const inferring = /^POST \/v1\/(completions|compat\/|text-to-speech\/|inference\/)/;
const operations = Object.keys(bodyExamples).filter((name) => !inferring.test(name));

async function refusalOf(name: string, body: object): Promise<string> {
  const [method = "", path = ""] = name.split(" ");
  const answer = await app.inject({
    method: method as "POST",
    url: path.replaceAll(/\{\w+\}/g, "1"),
    headers: { authorization: `Bearer ${adminKey}`, "content-type": "application/json" },
    payload: JSON.stringify(body),
  });
  const at = answer.statusCode === 422 ? (answer.json().detail?.[0]?.loc as string[] | undefined) : undefined;
  return at?.join(".") ?? `${answer.statusCode} ${answer.body.slice(0, 200)}`;
}

describe("a body that misses one bound is refused by name", { timeout: 60_000 }, () => {
  it.each(operations)("%s", async (name) => {
    const { schema } = operationOf(name)?.requestBody?.content["application/json"] ?? {};
    // Forms have tests of their own.
    if (!schema) return expect(operationOf(name)?.requestBody?.content).toHaveProperty(["multipart/form-data"]);
    const ajv = new Ajv({ strict: false, discriminator: true });
    const body = bodyExamples[name] as Record<string, unknown>;
    const faults: string[] = [];
    let count = 0;
    const refuses = async (what: string, at: readonly string[], wrong: object) => {
      count += 1;
      const told = await refusalOf(name, wrong);
      if (told !== ["body", ...at].join(".")) faults.push(`${what}: ${told}`);
    };
    for (const [field, property] of Object.entries(schema.properties ?? {})) {
      const { [field]: _, ...others } = body;
      if (schema.required?.includes(field)) await refuses(`no ${field}`, [field], others);
      const fits = ajv.compile(property);
      for (const { value, at, why } of misses(property)) {
        // A text that no pattern of this field minds.
        if (fits(value)) continue;
        await refuses(`${[field, ...at].join(".")} ${why}`, [field, ...at], { ...body, [field]: value });
      }
    }
    expect(faults).toEqual([]);
    expect(count).toBeGreaterThan(0);
  });
});

it("most bodies of the interface are asked", () => {
  expect(operations.length).toBeGreaterThan(50);
});
