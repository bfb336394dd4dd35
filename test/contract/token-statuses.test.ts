import { describe, expect, it } from "vitest";
import * as accounts from "../../control-plane/accounts/token-errors.ts";
import { ada, adminKey, apiKey, jwtOfAda } from "../fakes/ports.ts";
import { answerTo, check, type Row, refuse } from "./status-row.ts";

const away = Object.assign(new Error("the database cannot be reached"), { code: "store_away" });
const noStore = { "cache-control": "no-store" };
const byId = `/v1/api-tokens/${ada.key}`;
const byExplicitId = `/v1/api-tokens/id/${ada.key}`;
const bySecret = `/v1/api-tokens/${apiKey}`;
const lists = { allowed_ips: ["10.0.0.0/8"] };

const jwt = "POST /v1/scoped-jwt";
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

const rows: readonly Row[] = [
  {
    call: "POST /v1/api-tokens",
    status: 200,
    body: { name: "ci" },
    holds: { token: "stk_made", name: "ci", allowed_ips: null, token_id: ada.key, fragment: "f_ada" },
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
    given: refuse("tokens", "create")(new accounts.BadAllowedIps("not an address")),
    holds: { detail: [{ loc: ["body", "allowed_ips"] }], error: "not an address" },
  },
  {
    call: "POST /v1/api-tokens",
    status: 409,
    body: { name: "auto" },
    given: refuse("tokens", "create")(new accounts.KeyNameTaken("auto")),
    holds: { code: "name_taken" },
    headers: { "x-should-retry": "false" },
  },
  {
    call: "POST /v1/api-tokens",
    status: 503,
    body: { name: "ci" },
    given: refuse("tokens", "create")(away),
    holds: { code: "store_away" },
    headers: { "retry-after": "2" },
  },
  { call: "GET /v1/api-tokens", status: 200, headers: noStore },
  { call: "GET /v1/api-tokens", status: 401, key: null },
  { call: "GET /v1/api-tokens", status: 503, given: refuse("tokens", "list")(away) },
  ...[byId, byExplicitId].map(
    (path): Row => ({ call: `GET ${path}`, status: 200, holds: { token: "stk_********f_ada" }, headers: noStore }),
  ),
  { call: `GET ${bySecret}`, status: 200, holds: { token: apiKey }, headers: noStore },
  {
    call: `GET /v1/api-tokens/id/${apiKey}`,
    status: 404,
    holds: { code: "api_key_not_found", error: expect.stringContaining("GET /v1/api-tokens") },
  },
  { call: "GET /v1/api-tokens/unknown", status: 404 },
  { call: `GET ${byId}`, status: 404, key: adminKey },
  { call: `GET ${byId}`, status: 401, key: null },
  { call: `GET ${byId}`, status: 503, given: refuse("tokens", "get")(away) },
  ...[byId, byExplicitId, bySecret].map((path): Row => ({ call: `PATCH ${path}`, status: 200, body: lists })),
  { call: `PATCH ${byId}`, status: 422, body: {}, holds: { detail: [{ loc: ["body", "allowed_ips"] }] } },
  {
    call: `PATCH ${byId}`,
    status: 422,
    body: lists,
    given: refuse("tokens", "setAllowedIps")(new accounts.ShutsOutCaller("127.0.0.1")),
    holds: { code: "shuts_out_caller" },
  },
  { call: "PATCH /v1/api-tokens/unknown", status: 404, body: lists },
  { call: `PATCH ${byId}`, status: 401, body: lists, key: null },
  { call: `PATCH ${byId}`, status: 503, body: lists, given: refuse("tokens", "setAllowedIps")(away) },
  ...[byId, byExplicitId, bySecret].map(
    (path): Row => ({ call: `DELETE ${path}`, status: 200, holds: { token_id: ada.key } }),
  ),
  { call: "DELETE /v1/api-tokens/unknown", status: 404 },
  { call: `DELETE ${byId}`, status: 401, key: null },
  { call: `DELETE ${byId}`, status: 503, given: refuse("tokens", "revoke")(away) },

  { call: jwt, status: 200, body: { api_key_name: "auto" }, holds: { token: "jwt:made" }, headers: noStore },
  {
    call: jwt,
    status: 200,
    body: { api_key_name: "auto", models: null, expires_delta: null, expires_at: null, spending_limit: null },
  },
  { call: jwt, status: 401, body: { api_key_name: "auto" }, key: null },
  { call: jwt, status: 403, body: { api_key_name: "auto" }, key: jwtOfAda, holds: { code: "scope_not_allowed" } },
  { call: jwt, status: 404, body: { api_key_name: "other" }, holds: { code: "api_key_not_found" } },
  { call: jwt, status: 422, body: {}, holds: { detail: [{ loc: ["body", "api_key_name"], type: "missing" }] } },
  ...outOfBounds.map(
    ([field, value, type]): Row => ({
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
    given: refuse("scopedJwts", "mint")(new accounts.BadExpiry("in the past", "expires_at")),
    holds: { detail: [{ loc: ["body", "expires_at"], msg: "in the past" }] },
  },
  {
    call: jwt,
    status: 422,
    body: { api_key_name: "auto", models: ["a/b"] },
    given: refuse("scopedJwts", "mint")(new accounts.TooManyModels(8192)),
  },
  { call: jwt, status: 503, body: { api_key_name: "auto" }, given: refuse("scopedJwts", "mint")(away) },
  {
    call: "GET /v1/scoped-jwt?jwtoken=jwt:known",
    status: 200,
    holds: { id: "of-ada", expires_at: 1_790_000_000, models: null, spending_limit: 2.5, spending_current: 1e-9 },
    headers: noStore,
  },
  { call: "GET /v1/scoped-jwt?jwtoken=jwt:known", status: 404, key: adminKey },
  { call: "GET /v1/scoped-jwt?jwtoken=jwt:known", status: 401, key: null },
  { call: "GET /v1/scoped-jwt?jwtoken=jwt:known", status: 403, key: jwtOfAda },
  { call: "GET /v1/scoped-jwt?jwtoken=jwt:other", status: 404, holds: { code: "scoped_jwt_not_found" } },
  { call: "GET /v1/scoped-jwt", status: 422, holds: { detail: [{ loc: ["query", "jwtoken"], type: "missing" }] } },
  {
    call: "GET /v1/scoped-jwt?jwtoken=jwt:known",
    status: 503,
    given: refuse("scopedJwts", "inspect")(away),
  },
];

describe("every endpoint of API keys and scoped tokens, and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});

it("another account's key answers as an unknown one does, byte for byte", async () => {
  const body = async (call: Row["call"], key: string) =>
    (await answerTo({ call, key, status: 404 })).body.replace(/"request_id":"\w+"/, "");
  for (const method of ["GET", "DELETE"] as const) {
    const unknown = await body(`${method} /v1/api-tokens/unknown`, adminKey);
    expect(await body(`${method} ${byId}`, adminKey)).toBe(unknown);
    expect(await body(`${method} ${bySecret}`, adminKey)).toBe(unknown);
  }
});
