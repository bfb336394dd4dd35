import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv } from "ajv";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { detailOf } from "../../control-plane/http/errors/validation-detail.ts";
import { fakePorts } from "../fakes/ports.ts";

let app: Awaited<ReturnType<typeof createHttp>>;
beforeAll(async () => {
  app = await createHttp(fakePorts().deps);
});
afterAll(() => app.close());

interface Operation {
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: QuerySchema }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Media>> };
  readonly security?: readonly object[];
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, Media>> }>>;
}
interface QuerySchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly QuerySchema[];
  readonly oneOf?: readonly QuerySchema[];
  readonly items?: QuerySchema;
  readonly maxLength?: number;
}
interface Media {
  readonly schema?: object;
  readonly example?: unknown;
}
const operations = () => {
  const paths = app.swagger().paths as Record<string, Record<string, Operation>>;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
};

it("the committed description is what the routes say; `npm run generate` writes it", () => {
  const committed = JSON.parse(readFileSync(join(import.meta.dirname, "../../docs/openapi.json"), "utf8"));
  expect(committed).toEqual(JSON.parse(JSON.stringify(app.swagger())));
});

it("the description is valid OpenAPI 3.1", async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(JSON.parse(JSON.stringify(app.swagger())));
  expect(errors).toBeUndefined();
  expect([valid, validator.version]).toEqual([true, "3.1"]);
});

it("has a summary and the refusals of every operation", () => {
  expect(operations().length).toBeGreaterThan(20);
  for (const { path, operation } of operations()) {
    expect(operation.summary, path).toBeTruthy();
    expect(Object.keys(operation.responses), path).toContain("422");
    if ((operation.security?.length ?? 0) > 0) expect(Object.keys(operation.responses), path).toContain("401");
  }
});

it("describes every pattern in words instead of showing it", () => {
  const patterns = new Set<string>();
  const collect = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const { pattern } = value as { pattern?: unknown };
    if (typeof pattern === "string") patterns.add(pattern);
    Object.values(value).forEach(collect);
  };
  for (const { operation } of operations()) collect([operation.parameters, operation.requestBody]);
  expect(patterns.size).toBeGreaterThan(10);
  for (const pattern of patterns) {
    const [detail] = detailOf([{ keyword: "pattern", instancePath: "/x", params: { pattern } }], "body");
    expect(detail, pattern).toMatchObject({ msg: expect.stringMatching(/^Input should (be|hold) /) });
    expect(detail?.msg).not.toContain("another form");
  }
});

it("bounds the length of every query string: beyond that of all headers, a request is refused with 431", () => {
  const strings = (schema: QuerySchema): readonly QuerySchema[] => [
    ...(schema.type === "string" && !schema.enum && schema.const === undefined ? [schema] : []),
    ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.items ? [schema.items] : [])].flatMap(strings),
  ];
  const found = operations().flatMap(({ path, operation }) =>
    (operation.parameters ?? [])
      .filter((parameter) => parameter.in === "query")
      .flatMap(({ name, schema }) => strings(schema).map(({ maxLength }) => ({ at: `${path} ${name}`, maxLength }))),
  );
  expect(found.length).toBeGreaterThan(80);
  expect(found.filter(({ maxLength = Number.POSITIVE_INFINITY }) => maxLength > 8_192)).toEqual([]);
});

it("serves aliases without describing them twice", () => {
  const paths = operations().map(({ path }) => path);
  expect(paths).toContain("/v1/compat/chat/completions");
  expect(paths).not.toContain("/v1/chat/completions");
});

it("describes the tag of every operation", () => {
  const { tags = [] } = app.swagger() as { tags?: readonly { readonly name: string; readonly description?: string }[] };
  const explained = tags.filter(({ description }) => description).map(({ name }) => name);
  const unexplained = operations().flatMap(({ path, operation: { tags: [tag = "none"] = [] } }) =>
    explained.includes(tag) ? [] : [`${path}: ${tag}`],
  );
  expect(unexplained).toEqual([]);
});

it("has a valid example for every body", () => {
  const faults: string[] = [];
  let count = 0;
  const judge = (where: string, { schema, example }: Media) => {
    if (example === undefined) return;
    count += 1;
    const ajv = new Ajv({ strict: false, discriminator: true, schemas: [sharedSchemas()] });
    const fits = ajv.compile(pointedAt(schema ?? {}));
    if (!fits(example)) faults.push(`${where}: ${ajv.errorsText(fits.errors)}`);
  };
  for (const { path, method, operation } of operations()) {
    for (const [type, media] of Object.entries(operation.requestBody?.content ?? {})) {
      const where = `${method} ${path} ${type}`;
      if (media.example === undefined) faults.push(`${where} has no example`);
      judge(where, media);
    }
    for (const [status, { content = {} }] of Object.entries(operation.responses))
      for (const media of Object.values(content)) judge(`${method} ${path} ${status}`, media);
  }
  expect(faults).toEqual([]);
  expect(count).toBeGreaterThan(80);
});

/** What `$ref` leads to, as one document. */
const sharedSchemas = () => ({
  $id: "api",
  components: JSON.parse(JSON.stringify((app.swagger() as { components?: object }).components)),
});
const pointedAt = (schema: object) =>
  JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"api#/components'));

it("declares x-service-source for every operation that calls a model", () => {
  const inferring = operations().filter(
    ({ operation }) => operation.tags?.[0] === "inference" && operation.requestBody,
  );
  expect(inferring.length).toBeGreaterThan(10);
  for (const { path, operation } of inferring)
    expect(
      operation.parameters?.map(({ name }) => name),
      path,
    ).toContain("x-service-source");
});

it("what any path may answer is told in one place, in the shape that it is answered in", () => {
  const { components, ...api } = app.swagger() as unknown as {
    components: { responses: Record<string, { content: Record<string, { schema: { $ref: string } }> }> };
    "x-any-path": Record<string, { $ref: string }>;
    info: { description: string };
  };
  const told = Object.entries(api["x-any-path"]);
  expect(told.map(([status]) => status)).toEqual(["400", "405", "408", "413", "414", "417", "431"]);
  for (const [status, { $ref }] of told) {
    const response = components.responses[$ref.replace("#/components/responses/", "")];
    expect(response?.content["application/json"]?.schema.$ref).toBe("#/components/schemas/ServiceRefusal");
    expect(api.info.description).toContain(`- ${status}: `);
  }
});
