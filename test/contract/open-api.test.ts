import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Validator } from "@seriousme/openapi-schema-validator";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/create-http.ts";
import { fakePorts } from "../fakes/ports.ts";

let app: Awaited<ReturnType<typeof createHttp>>;
beforeAll(async () => {
  app = await createHttp(fakePorts().deps);
});
afterAll(() => app.close());

interface Operation {
  readonly summary?: string;
  readonly security?: readonly object[];
  readonly responses: Readonly<Record<string, unknown>>;
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

it("every operation is summed up and declares its refusals", () => {
  expect(operations().length).toBeGreaterThan(20);
  for (const { path, operation } of operations()) {
    expect(operation.summary, path).toBeTruthy();
    expect(Object.keys(operation.responses), path).toContain("422");
    if ((operation.security?.length ?? 0) > 0) expect(Object.keys(operation.responses), path).toContain("401");
  }
});

it("aliases are served but not described twice", () => {
  const paths = operations().map(({ path }) => path);
  expect(paths).toContain("/v1/compat/chat/completions");
  expect(paths).not.toContain("/v1/chat/completions");
});

it("the reference page loads nothing from elsewhere", async () => {
  const page = (await app.inject("/docs")).body;
  expect(page).not.toMatch(/(src|href)="(https?:)?\/\//);
});
