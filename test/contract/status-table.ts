// Calls of the installation's endpoints and the reply each must get. Every state that a row needs is created through the
// product, or written to the database as a control plane would write it.
import { randomBytes } from "node:crypto";
import { Secret, TOTP } from "otpauth";
import pg from "pg";
import { beforeAll, expect, inject, it } from "vitest";
import { describedOperations } from "./described-operations.ts";

export const installation = inject("installation");
export const { operatorKey } = installation;

/** Values of the names that rows write in braces, such as `GET /deploy/{deploy}`. */
export type Values = Readonly<Record<string, string>>;

export interface StatusRow {
  readonly call: `${"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} ${string}`;
  readonly status: number;
  readonly body?: unknown;
  /** API key; null: none. `{key}` unless the row names one. */
  readonly key?: string | null;
  /** Creates the state that the call meets. What it returns adds to the values. */
  readonly given?: (values: Values) => Promise<unknown>;
  /** Base URL; the first control plane unless the row names one. */
  readonly at?: string;
  readonly send?: Readonly<Record<string, string>>;
  /** Part of the reply's body. */
  readonly holds?: object;
  /** Headers of the reply. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects and fails where it is not there.
  readonly json: any;
}

/** One test per row, in a `describe` of the caller's. `arrange` runs once, before the first. */
export function checkStatuses(arrange: () => Promise<Values>, rows: readonly StatusRow[]): void {
  let shared: Values;
  beforeAll(async () => {
    shared = await arrange();
  });
  it.each(rows.map((row, n) => [`${row.status} for ${row.call} (${n + 1})`, row] as const))(
    "returns %s",
    async (_, row) => {
      const values: Values = { ...shared, ...((await row.given?.(shared)) as Values | undefined) };
      const reply = await send(row, values);
      expect(reply.status, reply.text).toBe(row.status);
      const declared = declaredStatuses(row.call);
      // An alias is not described twice.
      if (declared) expect(declared, `${row.call} declares its statuses`).toContain(row.status);
      expect(reply.text.length).toBeGreaterThan(0);
      if (row.holds) expect(reply.json).toMatchObject(filled(row.holds, values));
      for (const [name, value] of Object.entries(row.headers ?? {})) expect(reply.headers.get(name), name).toBe(value);
    },
  );
}

export async function send(
  row: Pick<StatusRow, "call" | "body" | "key" | "at" | "send">,
  values: Values = {},
): Promise<Reply> {
  const [method = "", url = ""] = filled(row.call, values).split(" ");
  const key = row.key === undefined ? (values["key"] as string) : row.key;
  const response = await fetch(`${row.at ?? installation.url}${url}`, {
    method,
    redirect: "manual",
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${filled(key, values)}` }),
      ...(row.body === undefined || row.body instanceof FormData ? {} : { "content-type": "application/json" }),
      ...filled(row.send ?? {}, values),
    },
    ...(row.body === undefined ? {} : { body: bodyOf(row.body, values) }),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    get json() {
      return JSON.parse(text);
    },
  };
}

const bodyOf = (body: unknown, values: Values): string | FormData => {
  if (body instanceof FormData) return body;
  return typeof body === "string" ? body : JSON.stringify(filled(body, values));
};

function filled<T>(given: T, values: Values): T {
  if (typeof given === "string") return given.replaceAll(/\{(\w+)\}/g, (all, name: string) => values[name] ?? all) as T;
  if (Array.isArray(given)) return given.map((one) => filled(one, values)) as T;
  if (typeof given !== "object" || given === null || Object.getPrototypeOf(given) !== Object.prototype) return given;
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, filled(value, values)])) as T;
}

const operations = describedOperations();

/** Statuses of the operation with the fewest parameters that a call fits; undefined when none is described. */
function declaredStatuses(call: string): readonly number[] | undefined {
  const [method = "", url = ""] = call.split(" ");
  const path = url.split("?")[0] as string;
  const fitting = operations
    .filter((one) => one.method === method && formOf(one.path).test(path))
    .sort((a, b) => a.path.split("{").length - b.path.split("{").length)[0];
  return fitting && Object.keys(fitting.operation.responses).map(Number);
}

const formOf = (path: string) =>
  new RegExp(`^${path.replaceAll(/\{model_name\}/g, ".+").replaceAll(/\{\w+\}/g, "[^/]+")}/?$`);

/** Sends as the operator and returns the body; any status but 200 fails. */
export async function operate(call: StatusRow["call"], body?: unknown): Promise<Reply["json"]> {
  return succeed({ call, body, key: operatorKey });
}

/** Sends and returns the body; any status but 200 fails. */
export async function succeed(row: Parameters<typeof send>[0], values: Values = {}): Promise<Reply["json"]> {
  const reply = await send(row, values);
  expect(reply.status, `${row.call}: ${reply.text}`).toBe(200);
  return reply.json;
}

export interface Customer {
  readonly uid: string;
  readonly key: string;
  readonly name: string;
  readonly email: string;
}

/** A fresh account that the operator created. */
export async function createCustomer({ creditUsd = 100 } = {}): Promise<Customer> {
  const name = `ada-${randomBytes(6).toString("hex")}`;
  const email = `${name}@example.com`;
  const made = await operate("POST /v1/admin/accounts", { email, display_name: name, credit_usd: creditUsd });
  return { uid: made.uid, key: made.api_key, name, email };
}

/** Suspends the account whose `uid` and `key` these values hold. Returns them once the control plane has read of it. */
export async function suspended<T extends Values | Customer>(given: T | Promise<T>): Promise<T> {
  const values = await given;
  await operate(`POST /v1/admin/accounts/${values["uid"]}/suspend`, { reason: "admin", note: "a test" });
  const call = { call: "PUT /deploy/unknown", body: {}, key: values["key"] as string } as const;
  await expect.poll(async () => (await send(call)).status, { timeout: 10_000 }).toBe(423);
  return values;
}

export const password = "a fine long passphrase 7";

/** Signs the customer in as a browser would. Returns its cookies and the token for writes. */
export async function signIn({
  email,
  key,
}: Pick<Customer, "email" | "key">): Promise<{ cookie: string; csrf: string }> {
  await succeed({ call: "POST /v1/me/password", key, body: { password } });
  const reply = await send({ call: "POST /v1/auth/sign-in", key: null, body: { email, password } });
  expect(reply.status, reply.text).toBe(200);
  const cookies = reply.headers.getSetCookie().map((one) => one.split(";")[0]);
  return { cookie: cookies.join("; "), csrf: reply.json.csrf_token };
}

/** Headers of a write from a signed-in browser: a row's `send`, with `key: null`. */
export const browser = { cookie: "{cookie}", "x-csrf-token": "{csrf}" };

/** Adds an authenticator app to a signed-in account. Returns a function that computes its current code. */
export async function addApp(session: Values): Promise<{ readonly id: string; readonly code: () => string }> {
  const inSession = { key: null, send: browser };
  const { ticket, totp } = await succeed(
    { ...inSession, call: "POST /v1/me/factors", body: { kind: "totp" } },
    session,
  );
  const app = new TOTP({ secret: Secret.fromBase32(totp.secret) });
  const body = { ticket, name: "telephone", code: app.generate() };
  const { factor } = await succeed({ ...inSession, call: "PUT /v1/me/factors", body }, session);
  return { id: factor.id, code: () => app.generate({ timestamp: Date.now() + 30_000 }) };
}

/** Runs statements on the installation's database, as a control plane would. */
export async function write(statement: string, parameters: readonly unknown[] = []): Promise<readonly object[]> {
  const client = new pg.Client(installation.databaseUrl);
  await client.connect();
  try {
    return (await client.query(statement, [...parameters])).rows;
  } finally {
    await client.end();
  }
}

/**
 * An account whose key a control plane still has in memory and which is deleted from the records. A late message of its
 * creation drops the key from memory: then another account is tried.
 */
export async function createEndedCustomer(): Promise<Values> {
  for (let tries = 0; tries < 20; tries++) {
    const { key, uid } = await createCustomer();
    await succeed({ call: "GET /v1/me", key });
    await write("update account set deleted_at = now() where account_id = $1", [uid]);
    if ((await send({ call: "GET /v1/models", key })).status === 200) return { key, uid };
  }
  throw new Error("the control plane keeps no key in memory");
}
