import { describe, expect, it } from "vitest";
import * as accounts from "../../control-plane/accounts/token-errors.ts";
import { ada, adminKey, apiKey } from "../fakes/ports.ts";
import { answerTo, check, type Row, refuse } from "./status-row.ts";

const away = Object.assign(new Error("the database cannot be reached"), { code: "store_away" });
const noStore = { "cache-control": "no-store" };
const byId = `/v1/api-tokens/${ada.key}`;
const byExplicitId = `/v1/api-tokens/id/${ada.key}`;
const bySecret = `/v1/api-tokens/${apiKey}`;
const lists = { allowed_ips: ["10.0.0.0/8"] };

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
  { call: `GET /v1/api-tokens/id/${apiKey}`, status: 404, holds: { code: "api_key_not_found" } },
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
