import { randomBytes } from "node:crypto";
import { describe } from "vitest";
import { checkStatuses, createCustomer, operate, operatorKey, type StatusRow, type Values } from "./status-table.ts";

const prices = "/v1/admin/prices" as const;
const discounts = "/v1/admin/discounts" as const;
const one = `${discounts}/{discount}` as const;
const rates = { input: 0.02, output: 0.04, image: 0.0025 };
const price = { kind: "model", subject: "{subject}", rates };
const discount = { name: "launch", percent: 12.5 };

async function arrange(): Promise<Values> {
  const { key, uid } = await createCustomer();
  const subject = `org/model-${randomBytes(4).toString("hex")}`;
  await operate(`POST ${prices}`, { kind: "model", subject, rates: { ...rates, cached_input: 0.01 } });
  return { key, uid, subject, ...(await launched({ uid })) };
}

/** A discount of the customer's alone. */
async function launched({ uid }: Values): Promise<Values> {
  const { id } = await operate(`POST ${discounts}`, { ...discount, uid });
  return { discount: id };
}

const endpoints = [
  { call: `GET ${prices}` },
  { call: `POST ${prices}`, body: price },
  { call: `GET ${discounts}` },
  { call: `POST ${discounts}`, body: { ...discount, uid: "{uid}" } },
  { call: `DELETE ${one}` },
] as const;

const rows: readonly StatusRow[] = [
  {
    call: `GET ${prices}?kind=model&subject={subject}`,
    key: operatorKey,
    status: 200,
    holds: { prices: [{ current: true, rates: { input: 0.02, cached_input: 0.01, image: 0.0025 } }] },
  },
  ...endpoints.flatMap((row): StatusRow[] => [
    { ...row, key: operatorKey, status: 200, given: launched },
    { ...row, key: null, status: 401 },
    { ...row, status: 403, holds: { code: "admin_only" } },
  ]),
  { call: `GET ${prices}?kind=car`, key: operatorKey, status: 422, holds: { detail: [{ loc: ["query", "kind"] }] } },
  {
    call: `POST ${prices}`,
    key: operatorKey,
    body: { ...price, rates: { input: -1 } },
    status: 422,
    holds: { detail: [{ loc: ["body", "rates", "input"], type: "greater_than_equal" }] },
  },
  // A misspelt rate would make the model free, as one below the smallest unit would; larger ones fit no usage record.
  ...[{ inputs: 1 }, {}, { image: 1_001 }, { input: 1e6 + 1 }, { hour: 1e9 }, { output: 1e-10 }].map(
    (bad): StatusRow => ({ call: `POST ${prices}`, key: operatorKey, body: { ...price, rates: bad }, status: 422 }),
  ),
  {
    call: `POST ${prices}`,
    key: operatorKey,
    body: { ...price, effective_from: "soon" },
    status: 422,
    holds: { detail: [{ loc: ["body", "effective_from"] }], code: "bad_time" },
  },
  {
    call: `POST ${prices}`,
    key: operatorKey,
    body: { ...price, effective_from: "2020-01-01T00:00:00Z" },
    status: 422,
    holds: { code: "invalid_price" },
  },
  {
    call: `POST ${discounts}`,
    key: operatorKey,
    body: { ...discount, uid: "{uid}" },
    status: 200,
    holds: { percent: 12.5, uid: "{uid}" },
  },
  {
    call: `POST ${discounts}`,
    key: operatorKey,
    body: { ...discount, percent: 101 },
    status: 422,
    holds: { detail: [{ loc: ["body", "percent"] }] },
  },
  {
    call: `POST ${discounts}`,
    key: operatorKey,
    body: { ...discount, uid: "u:1" },
    status: 422,
    holds: { code: "invalid_discount" },
  },
  { call: `DELETE ${discounts}/unknown`, key: operatorKey, status: 404, holds: { code: "discount_not_found" } },
];

describe("the price book", () => {
  checkStatuses(arrange, rows);
});
