import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import {
  checkStatuses,
  createCustomer,
  installation,
  operatorKey,
  type StatusRow,
  succeed,
  type Values,
  write,
} from "./status-table.ts";

const key = operatorKey;
/** Its payment provider is Stripe, which it cannot reach. */
const withStripe = { at: installation.closedUrl };
const terms = "/v1/admin/accounts/{uid}/terms";
const unknownAccount = async () => ({ uid: "u:9999999999999" });

async function arrange(): Promise<Values> {
  const { uid, key: own } = await createCustomer();
  const [auto] = await succeed({ call: "GET /v1/api-tokens", key: own });
  return { uid, key: own, keyId: auto.token_id, ...(await quarantined()), ...(await toppedUp({ key: own })) };
}

/** A usage record that no control plane could read, as a host sent it. */
async function quarantined(): Promise<Values> {
  const host = `host-${randomUUID()}`;
  const [row] = (await write(
    `insert into usage_quarantine (request_id, attempt, node_epoch, why, record, host_id, problem)
     values ('request-1', 1, '1', 'not readable', $1, $2, 'malformed') returning quarantine_id::text as id`,
    [JSON.stringify({ host }), host],
  )) as { id: string }[];
  return { record: row?.id as string, host };
}

/** A request for money that the operator decides. */
async function toppedUp({ key: own }: Values): Promise<Values> {
  const { uid } = await succeed({ call: "GET /v1/me", key: own as string });
  await succeed({ call: "POST /payment/funds", key: own as string, body: { amount: 2000 } });
  const { requests } = await succeed({ call: "GET /v1/admin/topup-requests", key });
  return { charge: requests.find((one: { uid: string }) => one.uid === uid).id };
}

const newRequest = async () => toppedUp({ key: (await createCustomer()).key });

const rows: readonly StatusRow[] = [
  { call: "GET /payment/usage?from=yesterday", status: 422, holds: { detail: [{ loc: ["query", "from"] }] } },
  {
    call: "GET /payment/config",
    status: 200,
    given: async () => ({ key: (await createCustomer()).key }),
    holds: { limit: -1 },
  },
  { call: "GET /payment/config", status: 401, key: null },
  { call: "POST /payment/config", status: 200, body: { limit: 12.5 } },
  { call: "GET /payment/config", status: 200, holds: { limit: 12.5 } },
  // null leaves the limit.
  { call: "POST /payment/config", status: 200, body: { limit: null }, holds: { limit: 12.5 } },
  {
    call: "POST /payment/config",
    status: 200,
    body: { limit: null, webhook: "https://93.184.216.34/alerts", invoice_address: " 1 Main Street\nLondon " },
    holds: { limit: 12.5, webhook: "https://93.184.216.34/alerts", invoice_address: "1 Main Street\nLondon" },
  },
  {
    call: "POST /payment/config",
    status: 200,
    body: { limit: null, webhook: "" },
    holds: { webhook: null, invoice_address: "1 Main Street\nLondon" },
  },
  { call: "POST /payment/config", status: 422, body: {}, holds: { detail: [{ loc: ["body", "limit"] }] } },
  { call: "POST /payment/config", status: 422, body: { limit: "10" } },
  { call: "POST /payment/config", status: 401, key: null, body: { limit: 1 } },

  { call: "GET /payment/key-limits", status: 200 },
  { call: "GET /payment/key-limits", status: 401, key: null },
  { call: "POST /payment/key-limits", status: 200, body: { token_id: "{keyId}", limit: 0 } },
  { call: "POST /payment/key-limits", status: 200, body: { token_id: "{keyId}" } },
  { call: "POST /payment/key-limits", status: 404, body: { token_id: "other" }, holds: { code: "api_key_not_found" } },
  { call: "POST /payment/key-limits", status: 422, body: { limit: 3 } },
  { call: "POST /payment/key-limits", status: 401, key: null, body: { token_id: "{keyId}" } },

  { call: "POST /payment/funds", status: 200, body: { amount: 2000 }, holds: { checkout_url: null } },
  { call: "POST /payment/funds", status: 422, body: { amount: 99 }, holds: { detail: [{ loc: ["body", "amount"] }] } },
  { call: "POST /payment/funds", status: 422, body: { amount: 100.5 } },
  { call: "POST /payment/funds", status: 401, key: null, body: { amount: 2000 } },
  {
    ...withStripe,
    call: "POST /payment/funds",
    status: 503,
    body: { amount: 2000 },
    holds: { code: "payment_provider_away" },
    headers: { "retry-after": "60" },
  },

  { call: "POST /payment/topup", status: 200, body: { amount: 2000, threshold: 500 }, holds: {} },
  { call: "POST /payment/topup", status: 422, body: { amount: -1 } },
  {
    call: "POST /payment/topup",
    status: 422,
    body: { amount: 0, threshold: 500, enabled: true },
    holds: { detail: [{ loc: ["body", "amount"] }] },
  },
  { call: "POST /payment/topup", status: 401, key: null, body: {} },

  { call: "GET /payment/billing-portal", status: 200, holds: { url: expect.stringMatching(/\/console\/billing$/) } },
  {
    call: "GET /payment/billing-portal?return_url=https://elsewhere.example",
    status: 200,
    holds: { url: expect.stringMatching(/\/console\/billing$/) },
  },
  { call: "GET /payment/billing-portal?return_url=javascript:alert(1)", status: 422 },
  // As UTF-8 in percent escapes a permitted length would exceed the limit of headers.
  { call: "GET /payment/billing-portal?return_url=https://elsewhere.example/%F0%B6%8D%B1", status: 422 },
  { call: "GET /payment/billing-portal", status: 401, key: null },
  { ...withStripe, call: "GET /payment/billing-portal", status: 503, holds: { code: "payment_provider_away" } },

  { call: "POST /v1/request-costs", status: 200, body: { requestIds: ["unknown"] }, holds: { requests: [] } },
  { call: "POST /v1/request-costs", status: 422, body: { requestIds: [] } },
  { call: "POST /v1/request-costs", status: 401, key: null, body: { requestIds: ["known"] } },

  { call: "POST /payment/stripe/webhook", status: 404, key: null, body: {}, holds: { code: "no_payment_events" } },
  {
    ...withStripe,
    call: "POST /payment/stripe/webhook",
    status: 400,
    key: null,
    body: {},
    send: { "stripe-signature": "t=1,v1=00" },
    holds: { code: "bad_payment_event" },
  },
  { ...withStripe, call: "POST /payment/stripe/webhook", status: 400, key: null },

  {
    call: "GET /v1/admin/money",
    status: 200,
    key,
    holds: { imbalance_usd: 0, quarantined_records: expect.any(Number), suspended: expect.any(Array) },
  },
  { call: "GET /v1/admin/money", status: 401, key: null },
  { call: "GET /v1/admin/money", status: 403 },
  { call: "GET /v1/admin/backups", status: 200, key, holds: { last_taken_at: null, backups: [] } },
  { call: "GET /v1/admin/backups", status: 401, key: null },
  { call: "GET /v1/admin/backups", status: 403 },
  { call: "GET /v1/admin/restores", status: 200, key, holds: { restores: [] } },
  { call: "GET /v1/admin/restores", status: 401, key: null },
  { call: "GET /v1/admin/restores", status: 403 },
  {
    call: "GET /v1/admin/usage-quarantine?limit=1&host_id={host}",
    status: 200,
    key,
    holds: { records: [{ id: "{record}", host_id: "{host}", problem: "malformed" }] },
  },
  {
    call: "GET /v1/admin/usage-quarantine?cursor={record}&host_id={host}",
    status: 200,
    key,
    holds: { records: [], next_cursor: null },
  },
  { call: "GET /v1/admin/usage-quarantine?cursor=x", status: 422, key },
  { call: "GET /v1/admin/usage-quarantine", status: 401, key: null },
  { call: "GET /v1/admin/usage-quarantine", status: 403 },
  ...(["release", "discard"] as const).flatMap((verb): StatusRow[] => {
    const at = (id: string) => `POST /v1/admin/usage-quarantine/${id}/${verb}` as const;
    const body = { note: "looked at it" };
    return [
      { call: at("999999999"), status: 404, key, body, holds: { code: "quarantined_record_not_found" } },
      { call: at("{record}"), status: 422, key, body: {} },
      { call: at("x"), status: 422, key, body },
      { call: at("{record}"), status: 403, body },
    ];
  }),
  // A release that succeeds needs a record of a host: test/integration/billing/quarantine.test.ts.
  {
    call: "POST /v1/admin/usage-quarantine/{record}/release",
    status: 409,
    key,
    body: { note: "" },
    headers: { "x-should-retry": "false" },
  },
  {
    call: "POST /v1/admin/usage-quarantine/{record}/discard",
    status: 200,
    key,
    given: quarantined,
    body: { note: "not readable" },
    holds: { id: "{record}", problem: "malformed" },
  },
  {
    call: "POST /v1/admin/usage-quarantine/discard",
    status: 200,
    key,
    given: quarantined,
    body: { host_id: "{host}", note: "a test host" },
    holds: { discarded: 1 },
  },
  { call: "POST /v1/admin/usage-quarantine/discard", status: 422, key, body: { note: "" } },
  { call: "POST /v1/admin/usage-quarantine/discard", status: 403, body: { host_id: "{host}", note: "" } },
  {
    call: "GET /v1/admin/topup-requests",
    status: 200,
    key,
    holds: {
      requests: expect.arrayContaining([expect.objectContaining({ amount_usd: 20, state: "requested" })]),
    },
  },
  { call: "GET /v1/admin/topup-requests", status: 403 },
  ...(["fulfil", "reject"] as const).flatMap((verb): StatusRow[] => [
    {
      call: `POST /v1/admin/topup-requests/{charge}/${verb}`,
      status: 200,
      key,
      given: newRequest,
      body: { note: "by bank" },
      holds: { state: verb === "fulfil" ? "done" : "failed" },
    },
    { call: `POST /v1/admin/topup-requests/{charge}/${verb}`, status: 422, key, body: {} },
    { call: `POST /v1/admin/topup-requests/{charge}/${verb}`, status: 403, body: { note: "" } },
    { call: `POST /v1/admin/topup-requests/unknown/${verb}`, status: 404, key, body: { note: "" } },
    {
      call: `POST /v1/admin/topup-requests/{charge}/${verb}`,
      status: 409,
      key,
      given: async () => {
        const values = await newRequest();
        await succeed({ call: `POST /v1/admin/topup-requests/{charge}/${verb}`, key, body: { note: "" } }, values);
        return values;
      },
      body: { note: "" },
      headers: { "x-should-retry": "false" },
    },
  ]),

  { call: `GET ${terms}`, status: 200, key, holds: { credit_line_usd: 0, due_days: 14, needs_payment_method: false } },
  { call: `GET ${terms}`, status: 403 },
  { call: `GET ${terms}`, status: 404, key, given: unknownAccount },
  { call: `POST ${terms}`, status: 200, key, body: { credit_line_usd: 100, note: "signed" } },
  { call: `POST ${terms}`, status: 422, key, body: { due_days: 400, note: "" } },
  { call: `POST ${terms}`, status: 403, body: { note: "" } },
  { call: `POST ${terms}`, status: 404, key, given: unknownAccount, body: { note: "" } },
];

describe("paying", () => {
  checkStatuses(arrange, rows);
});
