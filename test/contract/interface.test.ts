// The interface's own index against what is served and described: every path, alias and status that it names is there, or
// stands in `notYet`, which may hold nothing that is.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { fakePorts } from "../fakes/ports.ts";
import { interfaceAliases, interfaceOperations } from "./interface-operations.ts";

/** Not built yet: `METHOD path` for an operation, `METHOD path status` for one of its statuses. */
const notYet: ReadonlySet<string> = new Set();

let app: Awaited<ReturnType<typeof createHttp>>;
let described: Map<string, ReadonlySet<number>>;
beforeAll(async () => {
  app = await createHttp(fakePorts().deps);
  const paths = app.swagger().paths as Record<string, Record<string, { responses: Record<string, unknown> }>>;
  described = new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(
        ([method, { responses }]) =>
          [`${method.toUpperCase()} ${shape(path)}`, new Set(Object.keys(responses).map(Number))] as const,
      ),
    ),
  );
});
afterAll(() => app.close());

/** Names of parameters differ and matter to nobody. */
const shape = (path: string) => path.replaceAll(/\{\w+\}/g, "{}").replace(/(.)\/$/, "$1");
/** Names of models hold a slash. */
const filled = (path: string) =>
  path.replaceAll(/\{(?:model_name|lora_name|lora_model_name)\}/g, "owner/name").replaceAll(/\{\w+\}/g, "one");

/** Pages for people are served and not described to programs. */
const pages: ReadonlySet<string> = new Set(["/openapi.json", "/docs", "/console"]);

/** Whether any route takes it: an unknown one answers as section 2.1 says, one of other methods says which. */
async function isServed(method: string, path: string): Promise<boolean> {
  const answer = await app.inject({ method: method as "GET", url: filled(path) });
  if (answer.headers["allow"] !== undefined) return false;
  return !(answer.statusCode === 404 && answer.json().detail === "Not Found");
}

/** Fails where it is missing and not told, and where it is told and not missing. */
function judge(name: string, isThere: boolean): void {
  if (notYet.has(name)) expect(isThere, `${name} is built: take it off notYet`).toBe(false);
  else expect(isThere, `${name} is in the interface and was not built`).toBe(true);
}

it("the index was read", () => {
  expect(interfaceOperations.length).toBeGreaterThan(120);
  expect(interfaceAliases.length).toBeGreaterThan(25);
});

describe("every operation of the interface is served", () => {
  it.each(interfaceOperations.map(({ method, path }) => `${method} ${path}`))("%s", async (name) => {
    const [method, path] = name.split(" ") as [string, string];
    // A path with a parameter takes its fixed siblings as well: only what is described is the operation itself.
    const isDescribed = pages.has(path) || described.has(`${method} ${shape(path)}`);
    judge(name, isDescribed && (await isServed(method, path)));
  });
});

describe("every alias is served", () => {
  it.each(interfaceAliases)("%s %s", async (method, alias, path) => {
    if (notYet.has(`${method} ${path}`)) return;
    judge(`${method} ${alias}`, await isServed(method, alias));
  });
});

const statuses = interfaceOperations.flatMap(({ method, path, statuses: all }) =>
  pages.has(path) ? [] : all.map((status) => [`${method} ${path}`, status] as const),
);

describe("every status that the interface names is declared", () => {
  it.each(statuses)("%s %i", (operation, status) => {
    if (notYet.has(operation)) return;
    const [method, path] = operation.split(" ") as [string, string];
    judge(`${operation} ${status}`, described.get(`${method} ${shape(path)}`)?.has(status) ?? false);
  });
});

it("nothing stands in notYet that the interface does not name", () => {
  const known = new Set([
    ...interfaceOperations.map(({ method, path }) => `${method} ${path}`),
    ...interfaceAliases.map(([method, alias]) => `${method} ${alias}`),
    ...statuses.map(([operation, status]) => `${operation} ${status}`),
  ]);
  expect([...notYet].filter((name) => !known.has(name))).toEqual([]);
});
