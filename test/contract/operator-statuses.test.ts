import { describe } from "vitest";
import {
  checkStatuses,
  createCustomer,
  operatorKey,
  type StatusRow,
  succeed,
  suspended,
  type Values,
} from "./status-table.ts";

const one = "/v1/admin/accounts/{uid}";
const unknown = "/v1/admin/accounts/u:9999999999999";

async function arrange(): Promise<Values> {
  const { key, uid, name } = await createCustomer({ creditUsd: 18 });
  return { key, uid, name };
}

async function suspendedCustomer(): Promise<Values> {
  const { uid } = await suspended(createCustomer());
  return { uid };
}

async function deleted(): Promise<Values> {
  const { key, uid } = await createCustomer({ creditUsd: 0 });
  await succeed({ call: "DELETE /v1/me", key });
  return { uid };
}

const changes: readonly Pick<StatusRow, "call" | "body">[] = [
  { call: `PATCH ${one}`, body: { is_team_account: true } },
  { call: `POST ${one}/credit`, body: { amount_usd: 5, note: "wire" } },
  { call: `POST ${one}/suspend`, body: { reason: "admin", note: "abuse" } },
  { call: `POST ${one}/lift`, body: { note: "settled" } },
];
const view = { call: `POST ${one}/views`, body: { state: "begin" } } as const;
const endpoints: readonly Pick<StatusRow, "call" | "body">[] = [
  { call: "GET /v1/admin/accounts" },
  { call: `GET ${one}` },
  ...changes,
  view,
  { call: "GET /v1/admin/audit" },
  { call: "GET /v1/admin/audit/export" },
];

const rows: readonly StatusRow[] = [
  {
    call: "GET /v1/admin/accounts?query={name}&limit=1",
    key: operatorKey,
    status: 200,
    holds: { accounts: [{ uid: "{uid}", funds_usd: 18, spent_usd: 0, suspended: false }], next_cursor: null },
  },
  {
    call: `GET ${one}`,
    key: operatorKey,
    status: 200,
    holds: { uid: "{uid}", keys: 1, suspensions: [], deleted_at: null, credited_usd: 18 },
  },
  ...endpoints.flatMap((row): StatusRow[] => [
    { ...row, key: operatorKey, status: 200, ...(row.call.endsWith("/lift") ? { given: suspendedCustomer } : {}) },
    { ...row, key: null, status: 401, headers: { "www-authenticate": "Bearer" } },
  ]),
  ...endpoints.map((row): StatusRow => ({ ...row, status: 403, given: newAccount, holds: { code: "admin_only" } })),
  {
    call: "GET /v1/admin/accounts?limit=0",
    key: operatorKey,
    status: 422,
    holds: { detail: [{ loc: ["query", "limit"], type: "greater_than_equal" }] },
  },
  {
    call: "GET /v1/admin/accounts?cursor=x",
    key: operatorKey,
    status: 422,
    holds: { detail: [{ loc: ["query", "cursor"] }], code: "bad_cursor" },
  },
  ...changes.map(
    (row): StatusRow => ({
      ...row,
      key: operatorKey,
      status: 409,
      given: deleted,
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
    { call: `POST ${unknown}/views` as const, body: { state: "end" } },
  ].map((row): StatusRow => ({ ...row, key: operatorKey, status: 404, holds: { code: "account_not_found" } })),
  {
    call: `PATCH ${one}`,
    key: operatorKey,
    body: { is_admin: "yes" },
    status: 422,
    holds: { detail: [{ loc: ["body", "is_admin"] }] },
  },
  {
    call: `PATCH ${one}`,
    key: operatorKey,
    body: { is_admin: false },
    status: 409,
    given: async () => ({ uid: (await succeed({ call: "GET /v1/me", key: operatorKey })).uid }),
    holds: { code: "last_admin" },
    headers: { "x-should-retry": "false" },
  },
  {
    call: `POST ${one}/credit`,
    key: operatorKey,
    body: { amount_usd: "5", note: "n" },
    status: 422,
    holds: { detail: [{ loc: ["body", "amount_usd"] }] },
  },
  {
    call: `POST ${one}/credit`,
    key: operatorKey,
    body: { amount_usd: -5_000, note: "n" },
    status: 422,
    holds: { code: "invalid_credit" },
  },
  {
    call: `POST ${one}/credit`,
    key: operatorKey,
    given: async ({ uid }) => {
      const send = { "idempotency-key": `used-for-${uid}` };
      await succeed(
        { call: `POST ${one}/credit`, key: operatorKey, send, body: { amount_usd: 1, note: "n" } },
        { uid: uid as string },
      );
    },
    send: { "idempotency-key": "used-for-{uid}" },
    body: { amount_usd: 5, note: "n" },
    status: 409,
    headers: { "x-should-retry": "false" },
  },
  {
    call: `POST ${one}/credit`,
    key: operatorKey,
    send: { "idempotency-key": "a key" },
    body: { amount_usd: 5, note: "n" },
    status: 400,
    holds: { code: "bad_request" },
  },
  {
    call: `POST ${one}/views`,
    key: operatorKey,
    body: { state: "pause" },
    status: 422,
    holds: { detail: [{ loc: ["body", "state"], type: "enum" }] },
  },
  {
    call: `POST ${one}/suspend`,
    key: operatorKey,
    body: { reason: "dislike", note: "n" },
    status: 422,
    holds: { detail: [{ loc: ["body", "reason"], type: "enum" }] },
  },
  {
    call: `POST ${one}/suspend`,
    key: operatorKey,
    body: { reason: "admin" },
    status: 422,
    holds: { detail: [{ loc: ["body", "note"], type: "missing" }] },
  },
  {
    call: `POST ${one}/lift`,
    key: operatorKey,
    given: newAccount,
    body: { note: "n", reason: "admin" },
    status: 409,
    holds: { code: "not_suspended" },
    headers: { "x-should-retry": "false" },
  },
  {
    call: "GET /v1/admin/audit?from=2026-01-01T00:00:00Z&action=account.suspend&limit=1",
    key: operatorKey,
    status: 200,
    given: suspendedCustomer,
    holds: { entries: [{ action: "account.suspend", after: { reasons: ["admin"] } }] },
  },
  {
    call: "GET /v1/admin/audit?from=yesterday",
    key: operatorKey,
    status: 422,
    holds: { detail: [{ loc: ["query", "from"] }], code: "bad_time" },
  },
  {
    call: "GET /v1/admin/audit/export?since=yesterday",
    key: operatorKey,
    status: 422,
    holds: { detail: [{ loc: ["query", "since"] }], code: "bad_time" },
  },
  {
    call: "GET /v1/admin/audit/export?limit=0",
    key: operatorKey,
    status: 422,
    holds: { detail: [{ loc: ["query", "limit"] }] },
  },
  {
    call: "GET /v1/admin/audit?to=-271821-04-20T00:00:00Z",
    key: operatorKey,
    status: 422,
    holds: { detail: [{ loc: ["query", "to"] }], code: "bad_time" },
  },
];

async function newAccount(): Promise<Values> {
  const { key, uid } = await createCustomer();
  return { key, uid };
}

describe("the operator's accounts", () => {
  checkStatuses(arrange, rows);
});
