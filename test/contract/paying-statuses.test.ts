import { describe, it } from "vitest";
import { BilledAccountGone, TopupRefused } from "../../control-plane/billing/paying.ts";
import { BadPaymentEvent, PaymentProviderAway } from "../../control-plane/billing/payments.ts";
import { ada, adminKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const away = Object.assign(new Error("the database cannot be reached"), { code: "store_away" });
const providerAway = new PaymentProviderAway(new Error("ECONNREFUSED"));
const key = adminKey;
const terms = `/v1/admin/accounts/${ada.account}/terms`;

const rows: readonly Row[] = [
  { call: "GET /payment/config", status: 200, holds: { limit: 25 } },
  {
    call: "GET /payment/config",
    status: 200,
    given: ({ deps }) => void Object.assign(deps.limits, { ofAccount: () => Promise.resolve(null) }),
    holds: { limit: -1 },
  },
  { call: "GET /payment/config", status: 401, key: null },
  { call: "GET /payment/config", status: 503, given: refuse("limits", "ofAccount")(away) },
  { call: "POST /payment/config", status: 200, body: { limit: 12.5 } },
  {
    call: "POST /payment/config",
    status: 200,
    body: { limit: null },
    given: refuse("limits", "setAccount")(new Error("null must leave the limit")),
    holds: { limit: 25 },
  },
  { call: "POST /payment/config", status: 422, body: {}, holds: { detail: [{ loc: ["body", "limit"] }] } },
  { call: "POST /payment/config", status: 422, body: { limit: "10" } },
  { call: "POST /payment/config", status: 401, key: null, body: { limit: 1 } },
  { call: "POST /payment/config", status: 503, body: { limit: 1 }, given: refuse("limits", "setAccount")(away) },

  { call: "GET /payment/key-limits", status: 200 },
  { call: "GET /payment/key-limits", status: 401, key: null },
  { call: "GET /payment/key-limits", status: 503, given: refuse("limits", "ofKeys")(away) },
  { call: "POST /payment/key-limits", status: 200, body: { token_id: ada.key, limit: 0 } },
  { call: "POST /payment/key-limits", status: 200, body: { token_id: ada.key } },
  { call: "POST /payment/key-limits", status: 404, body: { token_id: "other" }, holds: { code: "api_key_not_found" } },
  { call: "POST /payment/key-limits", status: 422, body: { limit: 3 } },
  { call: "POST /payment/key-limits", status: 401, key: null, body: { token_id: ada.key } },
  {
    call: "POST /payment/key-limits",
    status: 503,
    body: { token_id: ada.key, limit: 1 },
    given: refuse("limits", "setKey")(away),
  },

  { call: "POST /payment/funds", status: 200, body: { amount: 2000 }, holds: { checkout_url: null } },
  { call: "POST /payment/funds", status: 422, body: { amount: 99 }, holds: { detail: [{ loc: ["body", "amount"] }] } },
  { call: "POST /payment/funds", status: 422, body: { amount: 100.5 } },
  { call: "POST /payment/funds", status: 401, key: null, body: { amount: 2000 } },
  {
    call: "POST /payment/funds",
    status: 404,
    body: { amount: 2000 },
    given: refuse("paying", "addFunds")(new BilledAccountGone()),
  },
  {
    call: "POST /payment/funds",
    status: 503,
    body: { amount: 2000 },
    given: refuse("paying", "addFunds")(providerAway),
    holds: { code: "payment_provider_away" },
    headers: { "retry-after": "60" },
  },

  { call: "POST /payment/topup", status: 200, body: { amount: 2000, threshold: 500 }, holds: {} },
  { call: "POST /payment/topup", status: 422, body: { amount: -1 } },
  {
    call: "POST /payment/topup",
    status: 422,
    body: { threshold: 500 },
    given: refuse("paying", "setTopup")(new TopupRefused("A top-up needs an amount.", { param: "amount" })),
    holds: { detail: [{ loc: ["body", "amount"] }] },
  },
  { call: "POST /payment/topup", status: 401, key: null, body: {} },
  { call: "POST /payment/topup", status: 503, body: { amount: 2000 }, given: refuse("paying", "setTopup")(away) },

  {
    call: "GET /payment/billing-portal",
    status: 200,
    holds: { url: "https://stoker.example.com/console/billing" },
  },
  {
    call: "GET /payment/billing-portal?return_url=https://elsewhere.example",
    status: 200,
    holds: { url: "https://stoker.example.com/console/billing" },
  },
  { call: "GET /payment/billing-portal?return_url=javascript:alert(1)", status: 422 },
  { call: "GET /payment/billing-portal", status: 401, key: null },
  { call: "GET /payment/billing-portal", status: 404, given: refuse("paying", "portal")(new BilledAccountGone()) },
  { call: "GET /payment/billing-portal", status: 503, given: refuse("paying", "portal")(providerAway) },

  {
    call: "POST /v1/request-costs",
    status: 200,
    body: { requestIds: ["known", "unknown", "known"] },
    holds: { requests: [{ requestId: "known", costNanoUsd: 70 }] },
  },
  { call: "POST /v1/request-costs", status: 422, body: { requestIds: [] } },
  { call: "POST /v1/request-costs", status: 401, key: null, body: { requestIds: ["known"] } },
  {
    call: "POST /v1/request-costs",
    status: 503,
    body: { requestIds: ["known"] },
    given: refuse("paying", "requestCosts")(away),
  },

  { call: "POST /payment/stripe/webhook", status: 404, key: null, body: {}, holds: { code: "no_payment_events" } },
  {
    call: "POST /payment/stripe/webhook",
    status: 400,
    key: null,
    body: {},
    given: refuse("paying", "takeEvent")(new BadPaymentEvent()),
    holds: { code: "bad_payment_event" },
  },
  { call: "POST /payment/stripe/webhook", status: 400, key: null },
  {
    call: "POST /payment/stripe/webhook",
    status: 503,
    key: null,
    body: {},
    given: refuse("paying", "takeEvent")(away),
  },

  {
    call: "GET /v1/admin/money",
    status: 200,
    key,
    holds: {
      imbalance_usd: 0,
      leased_usd: 2.5,
      open_leases: 3,
      loss_last_hour_usd: 0.01,
      suspended: [{ reason: "balance", accounts: 2 }],
      top_spenders: [{ uid: ada.account, display_name: "ada", spent_usd: 7.25, requests: 12 }],
    },
  },
  { call: "GET /v1/admin/money", status: 401, key: null },
  { call: "GET /v1/admin/money", status: 403 },
  { call: "GET /v1/admin/money", status: 503, key, given: refuse("moneyOverview", "overview")(away) },
  {
    call: "GET /v1/admin/topup-requests",
    status: 200,
    key,
    holds: { requests: [{ id: "chg_1", uid: ada.account, amount_usd: 20, state: "requested" }] },
  },
  { call: "GET /v1/admin/topup-requests", status: 403 },
  { call: "GET /v1/admin/topup-requests", status: 503, key, given: refuse("charges", "requests")(away) },
  ...(["fulfil", "reject"] as const).flatMap((verb): Row[] => [
    {
      call: `POST /v1/admin/topup-requests/chg_1/${verb}`,
      status: 200,
      key,
      body: { note: "by bank" },
      holds: { state: verb === "fulfil" ? "done" : "failed" },
    },
    { call: `POST /v1/admin/topup-requests/chg_1/${verb}`, status: 422, key, body: {} },
    { call: `POST /v1/admin/topup-requests/chg_1/${verb}`, status: 403, body: { note: "" } },
    { call: `POST /v1/admin/topup-requests/chg_2/${verb}`, status: 404, key, body: { note: "" } },
    {
      call: `POST /v1/admin/topup-requests/chg_ended/${verb}`,
      status: 409,
      key,
      body: { note: "" },
      headers: { "x-should-retry": "false" },
    },
    {
      call: `POST /v1/admin/topup-requests/chg_1/${verb}`,
      status: 503,
      key,
      body: { note: "" },
      given: refuse("charges", verb)(away),
    },
  ]),

  { call: `GET ${terms}`, status: 200, key, holds: { credit_line_usd: 0, due_days: 14, needs_payment_method: false } },
  { call: `GET ${terms}`, status: 403 },
  { call: `GET ${terms}`, status: 404, key, given: refuse("paying", "terms")(new BilledAccountGone()) },
  { call: `GET ${terms}`, status: 503, key, given: refuse("paying", "terms")(away) },
  { call: `POST ${terms}`, status: 200, key, body: { credit_line_usd: 100, note: "signed" } },
  { call: `POST ${terms}`, status: 422, key, body: { due_days: 400, note: "" } },
  { call: `POST ${terms}`, status: 403, body: { note: "" } },
  {
    call: `POST ${terms}`,
    status: 404,
    key,
    body: { note: "" },
    given: refuse("paying", "terms")(new BilledAccountGone()),
  },
  { call: `POST ${terms}`, status: 503, key, body: { note: "" }, given: refuse("paying", "setTerms")(away) },
];

describe("every endpoint of paying and its statuses", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});
