// One call of one endpoint and what must come of it. The caller is ada unless the row says otherwise; refusals of a feature are
// made by a verb that throws them.
import { expect } from "vitest";
import { createHttp, type HttpDeps } from "../../control-plane/http/core/create-http.ts";
import { apiKey, type FakePorts, fakePorts } from "../fakes/ports.ts";
import { standIn } from "../fakes/stand-in.ts";

export interface Row {
  readonly call: `${"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} ${string}`;
  readonly status: number;
  readonly body?: unknown;
  readonly key?: string | null;
  /** Makes the ports answer so. */
  readonly given?: (ports: FakePorts) => void;
  readonly holds?: object;
  /** Sent beside the key. */
  readonly send?: Readonly<Record<string, string>>;
  /** Of the answer. */
  readonly headers?: Readonly<Record<string, string>>;
}

export type Verb = (error: Error) => (ports: FakePorts) => void;
export const refuse =
  <Part extends keyof HttpDeps>(part: Part, verb: keyof HttpDeps[Part]): Verb =>
  (error) =>
  ({ deps }) => {
    (deps[part] as unknown as Record<string, unknown>)[verb as string] = () => Promise.reject(error);
  };
/** The ports of the row that is being asked. */
let current: FakePorts = fakePorts();
let app: ReturnType<typeof createHttp> | undefined;

/** One edge for all rows of a file: making its hundreds of routes takes longer than asking one. */
export async function answerTo(row: Row) {
  current = fakePorts();
  row.given?.(current);
  app ??= createHttp(standIn(() => current.deps));
  const edge = await app;
  const [method, url] = row.call.split(" ") as ["GET", string];
  const key = row.key === undefined ? apiKey : row.key;
  const answer = await edge.inject({
    method,
    url,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(row.body === undefined ? {} : { "content-type": "application/json" }),
      ...row.send,
    },
    ...(row.body === undefined ? {} : { body: typeof row.body === "string" ? row.body : JSON.stringify(row.body) }),
  });
  return answer;
}

type App = Awaited<ReturnType<typeof createHttp>>;
type Paths = Record<string, Record<string, { readonly responses: Record<string, unknown> }>>;

/** Of the operation with the fewest parameters that a call fits; undefined when none is described. */
function declaredStatuses(edge: App, call: string): readonly number[] | undefined {
  const [method = "", url = ""] = call.split(" ");
  const asked = url.split("?")[0] as string;
  const fitting = Object.entries(edge.swagger().paths as Paths)
    .filter(([path, methods]) => methods[method.toLowerCase()] && formOf(path).test(asked))
    .sort(([a], [b]) => a.split("{").length - b.split("{").length);
  const operation = fitting[0]?.[1][method.toLowerCase()];
  return operation && Object.keys(operation.responses).map(Number);
}

const formOf = (path: string) =>
  new RegExp(`^${path.replaceAll(/\{model_name\}/g, ".+").replaceAll(/\{\w+\}/g, "[^/]+")}/?$`);

export async function check(row: Row): Promise<void> {
  const answer = await answerTo(row);
  expect(answer.statusCode, answer.body).toBe(row.status);
  const declared = declaredStatuses(await (app as NonNullable<typeof app>), row.call);
  // An alias is not described twice, and a fault of ours is no answer to plan for.
  if (declared && row.status !== 500) expect(declared, `${row.call} declares its statuses`).toContain(row.status);
  expect(answer.body.length).toBeGreaterThan(0);
  if (row.holds) expect(answer.json()).toMatchObject(row.holds);
  for (const [name, value] of Object.entries(row.headers ?? {})) expect(answer.headers[name], name).toBe(value);
}
