import { describe, it } from "vitest";
import * as accounts from "../../control-plane/accounts/errors.ts";
import { CreditReferenceTaken, CreditRefused } from "../../control-plane/billing/funds.ts";
import { ada, adminKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const one = `/v1/admin/accounts/${ada.account}`;
const unknown = "/v1/admin/accounts/u:9999999999999";
const away = new accounts.AccountStoreAway(new Error("x"));
const databaseAway = Object.assign(new Error("the database cannot be reached"), { name: "DatabaseAway" });

/** Every endpoint with what it takes and the verb it calls. */
const endpoints = [
  { call: "GET /v1/admin/accounts", verb: "accounts" },
  { call: `GET ${one}`, verb: "account" },
  { call: `PATCH ${one}`, verb: "changeAccount", body: { is_admin: true } },
  { call: `POST ${one}/credit`, verb: "credit", body: { amount_usd: 5, note: "wire" } },
  { call: `POST ${one}/suspend`, verb: "suspend", body: { reason: "admin", note: "abuse" } },
  { call: `POST ${one}/lift`, verb: "lift", body: { note: "settled" } },
  { call: "GET /v1/admin/audit", verb: "audit" },
] as const satisfies readonly (Pick<Row, "call" | "body"> & { verb: string })[];

const common = endpoints.flatMap(({ verb, ...row }): Row[] => [
  { ...row, key: adminKey, status: 200 },
  { ...row, key: null, status: 401, headers: { "www-authenticate": "Bearer" } },
  { ...row, status: 403, holds: { code: "admin_only" } },
  { ...row, key: adminKey, status: 503, given: refuse("operator", verb)(away), headers: { "retry-after": "2" } },
  { ...row, key: adminKey, status: 503, given: refuse("operator", verb)(databaseAway), holds: { code: "store_away" } },
]);

const rows: readonly Row[] = [
  ...common,
  {
    call: "GET /v1/admin/accounts?query=ada&limit=1",
    key: adminKey,
    status: 200,
    holds: { accounts: [{ uid: ada.account, funds_usd: 10.03, spent_usd: 7.97, suspended: false }], next_cursor: null },
  },
  {
    call: "GET /v1/admin/accounts?limit=0",
    key: adminKey,
    status: 422,
    holds: { detail: [{ loc: ["query", "limit"], type: "greater_than_equal" }] },
  },
  {
    call: "GET /v1/admin/accounts?cursor=x",
    key: adminKey,
    status: 422,
    given: refuse("operator", "accounts")(new accounts.BadCursor()),
    holds: { detail: [{ loc: ["query", "cursor"] }], code: "bad_cursor" },
  },
  {
    call: `GET ${one}`,
    key: adminKey,
    status: 200,
    holds: { uid: ada.account, keys: 1, suspensions: [], deleted_at: null, credited_usd: 18 },
  },
  ...endpoints
    .filter(({ verb }) => ["changeAccount", "credit", "suspend", "lift"].includes(verb))
    .map(
      ({ verb, ...row }): Row => ({
        ...row,
        key: adminKey,
        status: 409,
        given: refuse("operator", verb)(new accounts.AccountDeleted(ada.account, Date.UTC(2026, 0, 2))),
        holds: { code: "account_deleted" },
        headers: { "x-should-retry": "false" },
      }),
    ),
  ...[
    { call: `GET ${unknown}` as const },
    { call: `PATCH ${unknown}` as const, body: {} },
    { call: `POST ${unknown}/credit` as const, body: { amount_usd: 5, note: "n" } },
    { call: `POST ${unknown}/suspend` as const, body: { note: "n" } },
    { call: `POST ${unknown}/lift` as const, body: { note: "n" } },
  ].map((row): Row => ({ ...row, key: adminKey, status: 404, holds: { code: "account_not_found" } })),
  {
    call: `PATCH ${one}`,
    key: adminKey,
    body: { is_admin: "yes" },
    status: 422,
    holds: { detail: [{ loc: ["body", "is_admin"] }] },
  },
  {
    call: `PATCH ${one}`,
    key: adminKey,
    body: { is_admin: false },
    status: 409,
    given: refuse("operator", "changeAccount")(new accounts.LastAdmin()),
    headers: { "x-should-retry": "false" },
  },
  {
    call: `POST ${one}/credit`,
    key: adminKey,
    body: { amount_usd: "5", note: "n" },
    status: 422,
    holds: { detail: [{ loc: ["body", "amount_usd"] }] },
  },
  {
    call: `POST ${one}/credit`,
    key: adminKey,
    body: { amount_usd: -50, note: "n" },
    status: 422,
    given: refuse("operator", "credit")(new CreditRefused("more than is left")),
    holds: { code: "invalid_credit" },
  },
  {
    call: `POST ${one}/credit`,
    key: adminKey,
    body: { amount_usd: 5, note: "n" },
    status: 409,
    given: refuse("operator", "credit")(new CreditReferenceTaken()),
    headers: { "x-should-retry": "false" },
  },
  {
    call: `POST ${one}/credit`,
    key: adminKey,
    send: { "idempotency-key": "a key" },
    body: { amount_usd: 5, note: "n" },
    status: 400,
    holds: { code: "bad_request" },
  },
  {
    call: `POST ${one}/suspend`,
    key: adminKey,
    body: { reason: "dislike", note: "n" },
    status: 422,
    holds: { detail: [{ loc: ["body", "reason"], type: "enum" }] },
  },
  {
    call: `POST ${one}/suspend`,
    key: adminKey,
    body: { reason: "admin" },
    status: 422,
    holds: { detail: [{ loc: ["body", "note"], type: "missing" }] },
  },
  {
    call: `POST ${one}/lift`,
    key: adminKey,
    body: { note: "n", reason: "admin" },
    status: 409,
    given: refuse("operator", "lift")(new accounts.NotSuspended("admin")),
    holds: { code: "not_suspended" },
    headers: { "x-should-retry": "false" },
  },
  {
    call: "GET /v1/admin/audit?from=2026-01-01T00:00:00Z&to=1786000000&action=account&limit=1",
    key: adminKey,
    status: 200,
    holds: { entries: [{ id: "7", action: "account.suspend", after: { reasons: ["admin"] } }], next_cursor: "7" },
  },
  {
    call: "GET /v1/admin/audit?from=yesterday",
    key: adminKey,
    status: 422,
    holds: { detail: [{ loc: ["query", "from"] }], code: "bad_time" },
  },
];

describe("every endpoint of the operator's surface and its statuses", () => {
  it.each(rows.map((row, i) => [`${row.call} ${row.status} (${i})`, row] as const))("%s", (_name, row) => check(row));
});
