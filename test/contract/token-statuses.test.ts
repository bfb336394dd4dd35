import { describe, expect, it } from "vitest";
import {
  checkStatuses,
  createCustomer,
  operatorKey,
  type StatusRow,
  send,
  succeed,
  type Values,
} from "./status-table.ts";

const noStore = { "cache-control": "no-store" };
const byId = "/v1/api-tokens/{keyId}";
const byExplicitId = "/v1/api-tokens/id/{keyId}";
const bySecret = "/v1/api-tokens/{key}";
const here = { allowed_ips: ["127.0.0.0/8"] };

const jwt = "POST /v1/scoped-jwt";
const secret = "POST /v1/realtime/client_secrets";
const outOfBounds: readonly (readonly [string, unknown, string])[] = [
  ["api_key_name", "", "string_too_short"],
  ["models", "a/b", "list_type"],
  ["expires_delta", 0, "greater_than"],
  ["expires_delta", 31_536_001, "less_than_equal"],
  ["expires_delta", 1.5, "int_from_float"],
  ["expires_at", "tomorrow", "int_type"],
  ["spending_limit", -0.01, "greater_than_equal"],
  ["spending_limit", "1", "float_type"],
];

async function arrange(): Promise<Values> {
  const { uid, key } = await createCustomer();
  const [auto] = await succeed({ call: "GET /v1/api-tokens", key });
  const { token } = await succeed({
    ...{ call: jwt, key },
    body: { api_key_name: "auto", expires_delta: 600, spending_limit: 2.5 },
  });
  return { uid, key, keyId: auto.token_id, jwt: token };
}

/** Another key of the account. */
async function anotherKey({ key }: Values): Promise<Values> {
  const made = await succeed({ call: "POST /v1/api-tokens", key: key as string, body: { name: `k-${Date.now()}` } });
  return { secondId: made.token_id, second: made.token };
}

/** A page's key, as it would be presented outside a session. */
async function ephemeral({ key }: Values): Promise<Values> {
  const session = { type: "transcription", audio: { input: { transcription: { model: "org/model" } } } };
  const { value } = await succeed({ call: secret, key: key as string, body: { session } });
  return { ephemeral: value.slice("ek_".length) };
}

/** A key of the operator, whose rights end with its role. */
async function keyOfRole(role: string): Promise<Values> {
  const name = `k-${role}-${Date.now()}`;
  const made = await succeed({ call: "POST /v1/api-tokens", key: operatorKey, body: { name, role } });
  return { restricted: made.token };
}

const badRules: readonly (readonly [string, unknown])[] = [
  ["allowed_models", []],
  ["allowed_models", [""]],
  ["allowed_models", Array.from({ length: 101 }, (_, n) => `org/${n}`)],
  ["expires_at", 1],
  ["expires_at", 4_000_000_000],
  ["requests_per_minute", 0],
  ["requests_per_minute", 1_000_001],
  ["tokens_per_minute", 0],
  ["tokens_per_minute", 1_000_000_000_001],
  ["role", "owner"],
  ["role", null],
  ["trusts_user_headers", "yes"],
];

const rows: readonly StatusRow[] = [
  {
    call: "POST /v1/api-tokens",
    status: 200,
    body: { name: "ci" },
    holds: { token: expect.stringMatching(/^stk_/), name: "ci", allowed_ips: null },
    headers: noStore,
  },
  { call: "POST /v1/api-tokens", status: 401, body: { name: "ci" }, key: null },
  {
    call: "POST /v1/api-tokens",
    status: 422,
    body: {},
    holds: { detail: [{ loc: ["body", "name"], type: "missing" }] },
  },
  {
    call: "POST /v1/api-tokens",
    status: 422,
    body: { name: "x".repeat(129) },
    holds: { detail: [{ loc: ["body", "name"], type: "string_too_long" }] },
  },
  {
    call: "POST /v1/api-tokens",
    status: 422,
    body: { name: "ci", allowed_ips: ["home"] },
    holds: { detail: [{ loc: ["body", "allowed_ips"] }] },
  },
  ...badRules.map(
    ([field, value]): StatusRow => ({
      call: "POST /v1/api-tokens",
      status: 422,
      body: { name: "ci", [field]: value },
      holds: { detail: [{ loc: expect.arrayContaining(["body", field]) }] },
    }),
  ),
  ...badRules.map(
    ([field, value]): StatusRow => ({
      call: `PATCH ${byId}`,
      status: 422,
      body: { [field]: value },
      holds: { detail: [{ loc: expect.arrayContaining(["body", field]) }] },
    }),
  ),
  {
    call: `PATCH ${byId}`,
    status: 200,
    body: { expires_at: 2_000_000_000, tokens_per_minute: 1_000_000_000_000, requests_per_minute: 1_000_000 },
    holds: { expires_at: 2_000_000_000, tokens_per_minute: 1_000_000_000_000, requests_per_minute: 1_000_000 },
  },
  {
    call: `PATCH ${byId}`,
    status: 200,
    body: { expires_at: null, tokens_per_minute: null, requests_per_minute: null, allowed_models: null },
    holds: { expires_at: null, tokens_per_minute: null, requests_per_minute: null, role: "admin" },
  },
  ...(
    [
      ["GET /v1/api-tokens", "inference"],
      ["PATCH /v1/api-tokens/{keyId}", "read"],
      ["POST /v1/api-tokens", "read"],
      ["POST /v1/scoped-jwt", "inference"],
      ["GET /v1/admin/accounts", "read"],
    ] as const
  ).map(
    ([call, role]): StatusRow => ({
      call,
      status: 403,
      body: call.startsWith("GET") ? undefined : {},
      given: () => keyOfRole(role),
      key: "{restricted}",
      holds: { code: "role_not_allowed" },
    }),
  ),
  {
    call: "POST /v1/completions",
    status: 403,
    body: {},
    given: () => keyOfRole("read"),
    key: "{restricted}",
    holds: { error: expect.objectContaining({ code: "role_not_allowed" }) },
  },
  { call: "GET /v1/api-tokens", status: 200, given: () => keyOfRole("read"), key: "{restricted}" },
  { call: "GET /v1/models", status: 200, given: () => keyOfRole("inference"), key: "{restricted}" },
  {
    call: "POST /v1/api-tokens",
    status: 409,
    body: { name: "auto" },
    holds: { code: "name_taken" },
    headers: { "x-should-retry": "false" },
  },
  { call: "GET /v1/api-tokens", status: 200, headers: noStore },
  { call: "GET /v1/api-tokens", status: 401, key: null },
  ...[byId, byExplicitId].map(
    (path): StatusRow => ({
      call: `GET ${path}`,
      status: 200,
      holds: { token: expect.stringMatching(/^stk_\*{8}/) },
      headers: noStore,
    }),
  ),
  { call: `GET ${bySecret}`, status: 200, holds: { token: "{key}" }, headers: noStore },
  {
    call: "GET /v1/api-tokens/id/{key}",
    status: 404,
    holds: { code: "api_key_not_found", error: expect.stringContaining("GET /v1/api-tokens") },
  },
  { call: "GET /v1/api-tokens/unknown", status: 404 },
  { call: `GET ${byId}`, status: 404, key: operatorKey },
  { call: `GET ${byId}`, status: 401, key: null },
  ...[byId, byExplicitId, bySecret].map((path): StatusRow => ({ call: `PATCH ${path}`, status: 200, body: here })),
  { call: `PATCH ${byId}`, status: 422, body: {}, holds: { detail: [{ loc: ["body", "allowed_ips"] }] } },
  { call: `PATCH ${byId}`, status: 422, body: { allowed_ips: ["10.0.0.0/8"] }, holds: { code: "shuts_out_caller" } },
  { call: "PATCH /v1/api-tokens/unknown", status: 404, body: here },
  { call: `PATCH ${byId}`, status: 401, body: here, key: null },
  ...["/v1/api-tokens/{secondId}", "/v1/api-tokens/id/{secondId}", "/v1/api-tokens/{second}"].map(
    (path): StatusRow => ({
      call: `DELETE ${path}`,
      status: 200,
      given: anotherKey,
      holds: { token_id: "{secondId}" },
    }),
  ),
  { call: "DELETE /v1/api-tokens/unknown", status: 404 },
  { call: `DELETE ${byId}`, status: 401, key: null },

  {
    call: jwt,
    status: 200,
    body: { api_key_name: "auto" },
    holds: { token: expect.stringMatching(/^jwt:/) },
    headers: noStore,
  },
  {
    call: jwt,
    status: 200,
    body: { api_key_name: "auto", models: null, expires_delta: null, expires_at: null, spending_limit: null },
  },
  { call: jwt, status: 401, body: { api_key_name: "auto" }, key: null },
  { call: jwt, status: 403, body: { api_key_name: "auto" }, key: "{jwt}", holds: { code: "scope_not_allowed" } },
  { call: jwt, status: 404, body: { api_key_name: "other" }, holds: { code: "api_key_not_found" } },
  { call: jwt, status: 422, body: {}, holds: { detail: [{ loc: ["body", "api_key_name"], type: "missing" }] } },
  ...outOfBounds.map(
    ([field, value, type]): StatusRow => ({
      call: jwt,
      status: 422,
      body: { api_key_name: "auto", [field]: value },
      holds: { detail: [{ loc: ["body", ...field.split(".")], type }] },
    }),
  ),
  {
    call: jwt,
    status: 422,
    body: { api_key_name: "auto", expires_at: 1 },
    holds: { detail: [{ loc: ["body", "expires_at"] }] },
  },
  {
    call: jwt,
    status: 422,
    body: { api_key_name: "auto", models: Array.from({ length: 200 }, (_, n) => `org/${"m".repeat(90)}${n}`) },
    holds: { detail: [{ loc: ["body", "models"] }] },
  },
  {
    call: "GET /v1/scoped-jwt?jwtoken={jwt}",
    status: 200,
    holds: { id: expect.any(String), expires_at: expect.any(Number), spending_limit: 2.5, spending_current: 0 },
    headers: noStore,
  },
  {
    call: "GET /v1/scoped-jwt?jwtoken={jwt}",
    status: 200,
    given: anotherKey,
    key: "{second}",
    holds: { spending_limit: 2.5 },
  },
  { call: "GET /v1/scoped-jwt?jwtoken={jwt}", status: 404, key: operatorKey },
  {
    call: secret,
    body: { session: { type: "transcription", audio: { input: { transcription: { model: "org/model" } } } } },
    status: 200,
    headers: noStore,
    holds: {
      value: expect.stringMatching(/^ek_eyJ[\w-]+\.[\w-]+\.[\w-]+$/),
      session: { type: "transcription", audio: { input: { transcription: { model: "org/model" } } } },
    },
  },
  { call: secret, body: {}, status: 400, holds: { error: { code: "model_required" } } },
  ...["POST /v1/chat/completions", "POST /v1/audio/transcriptions", "GET /v1/models", "GET /v1/me"].map(
    (call): StatusRow => ({
      ...{ call: call as StatusRow["call"], status: 403, given: ephemeral, key: "jwt:{ephemeral}" },
      ...(call.startsWith("POST") && { body: { model: "org/model", messages: [{ role: "user", content: "hi" }] } }),
    }),
  ),
  { call: secret, body: { expires_after: { anchor: "created_at", seconds: 9 } }, status: 422 },
  { call: secret, body: { session: { type: "realtime" } }, status: 422 },
  { call: secret, body: {}, status: 401, key: null },
  { call: secret, body: {}, status: 403, key: "{jwt}" },
  { call: "GET /v1/scoped-jwt?jwtoken={jwt}", status: 401, key: null },
  { call: "GET /v1/scoped-jwt?jwtoken={jwt}", status: 403, key: "{jwt}" },
  { call: "GET /v1/scoped-jwt?jwtoken=jwt:other", status: 404, holds: { code: "scoped_jwt_not_found" } },
  { call: "GET /v1/scoped-jwt", status: 422, holds: { detail: [{ loc: ["query", "jwtoken"], type: "missing" }] } },
];

describe("API keys and scoped tokens", () => {
  checkStatuses(arrange, rows);
});

describe("inspecting a scoped token", () => {
  const inspected = async (body: object) => {
    const values = await arrange();
    const { token } = await succeed({ call: jwt, body: { api_key_name: "auto", ...body } }, values);
    return succeed({ call: `GET /v1/scoped-jwt?jwtoken=${token}` }, values);
  };

  it("returns models and limit in the contract's types", async () => {
    expect(await inspected({ models: ["a/b"], spending_limit: 0 })).toMatchObject({
      expires_at: expect.any(Number),
      models: ["a/b"],
      spending_limit: 0,
    });
  });

  it("leaves out models and limit where there are none, and never returns null", async () => {
    const body = await inspected({});
    expect(Object.keys(body).sort()).toEqual(["expires_at", "id", "spending_current"]);
    expect(Object.values(body)).not.toContain(null);
  });
});

it("returns the same reply for another account's key as for an unknown one, byte for byte", async () => {
  const values = await arrange();
  const reply = async (call: StatusRow["call"]) =>
    (await send({ call, key: operatorKey }, values)).text.replace(/"request_id":"\w+"/, "");
  for (const method of ["GET", "DELETE"] as const) {
    const unknown = await reply(`${method} /v1/api-tokens/unknown`);
    expect(await reply(`${method} ${byId}`)).toBe(unknown);
    expect(await reply(`${method} ${bySecret}`)).toBe(unknown);
  }
});
