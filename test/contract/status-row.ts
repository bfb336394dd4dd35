// One call of one endpoint and what must come of it. The caller is ada unless the row says otherwise; refusals of a feature are
// made by a verb that throws them.
import { expect } from "vitest";
import { createHttp } from "../../control-plane/http/create-http.ts";
import type { HttpDeps } from "../../control-plane/http/verbs.ts";
import { apiKey, type FakePorts, fakePorts } from "../fakes/ports.ts";

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
export async function answerTo(row: Row) {
  const ports = fakePorts();
  row.given?.(ports);
  const app = await createHttp(ports.deps);
  const [method, url] = row.call.split(" ") as ["GET", string];
  const key = row.key === undefined ? apiKey : row.key;
  const answer = await app.inject({
    method,
    url,
    headers: {
      ...row.send,
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(row.body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(row.body === undefined ? {} : { body: typeof row.body === "string" ? row.body : JSON.stringify(row.body) }),
  });
  await app.close();
  return answer;
}

export async function check(row: Row): Promise<void> {
  const answer = await answerTo(row);
  expect(answer.statusCode, answer.body).toBe(row.status);
  expect(answer.body.length).toBeGreaterThan(0);
  if (row.holds) expect(answer.json()).toMatchObject(row.holds);
  for (const [name, value] of Object.entries(row.headers ?? {})) expect(answer.headers[name], name).toBe(value);
}
