import { describe, it } from "vitest";
import { AccountStoreAway } from "../../control-plane/accounts/errors.ts";
import { DiscountRefused } from "../../control-plane/billing/discounts.ts";
import { PriceRefused } from "../../control-plane/billing/price-book.ts";
import { adminKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const prices = "/v1/admin/prices" as const;
const discounts = "/v1/admin/discounts" as const;
const one = `${discounts}/DiscountOfAda000` as const;
const price = { kind: "model", subject: "org/model", rates: { input: 0.02, output: 0.04, image: 0.0025 } };
const discount = { name: "launch", percent: 12.5 };
const away = new AccountStoreAway(new Error("x"));

const endpoints = [
  { call: `GET ${prices}`, part: "prices", verb: "list" },
  { call: `POST ${prices}`, part: "prices", verb: "set", body: price },
  { call: `GET ${discounts}`, part: "discounts", verb: "list" },
  { call: `POST ${discounts}`, part: "discounts", verb: "create", body: discount },
  { call: `DELETE ${one}`, part: "discounts", verb: "end" },
] as const;

const rows: readonly Row[] = [
  ...endpoints.flatMap(({ part, verb, ...row }): Row[] => [
    { ...row, key: adminKey, status: 200 },
    { ...row, key: null, status: 401 },
    { ...row, status: 403, holds: { code: "admin_only" } },
    { ...row, key: adminKey, status: 503, given: refuse(part, verb as never)(away) },
  ]),
  {
    call: `GET ${prices}?kind=model&subject=org/model`,
    key: adminKey,
    status: 200,
    holds: { prices: [{ version: 3, current: true, rates: { input: 0.02, cached_input: 0.01, image: 0.0025 } }] },
  },
  { call: `GET ${prices}?kind=car`, key: adminKey, status: 422, holds: { detail: [{ loc: ["query", "kind"] }] } },
  {
    call: `POST ${prices}`,
    key: adminKey,
    body: { ...price, rates: { input: -1 } },
    status: 422,
    holds: { detail: [{ loc: ["body", "rates", "input"], type: "greater_than_equal" }] },
  },
  // A misspelt rate would make the model free; pictures are kept by the million, in 63 bits.
  ...[{ inputs: 1 }, {}, { image: 9_001 }].map(
    (rates): Row => ({ call: `POST ${prices}`, key: adminKey, body: { ...price, rates }, status: 422 }),
  ),
  {
    call: `POST ${prices}`,
    key: adminKey,
    body: { ...price, effective_from: "soon" },
    status: 422,
    holds: { detail: [{ loc: ["body", "effective_from"] }], code: "bad_time" },
  },
  {
    call: `POST ${prices}`,
    key: adminKey,
    body: { ...price, effective_from: "2020-01-01T00:00:00Z" },
    status: 422,
    given: refuse("prices", "set")(new PriceRefused("in the past", { param: "effective_from" })),
    holds: { code: "invalid_price" },
  },
  { call: `POST ${discounts}`, key: adminKey, body: discount, status: 200, holds: { percent: 12.5, uid: null } },
  {
    call: `POST ${discounts}`,
    key: adminKey,
    body: { ...discount, percent: 101 },
    status: 422,
    holds: { detail: [{ loc: ["body", "percent"] }] },
  },
  {
    call: `POST ${discounts}`,
    key: adminKey,
    body: { ...discount, uid: "u:1" },
    status: 422,
    given: refuse("discounts", "create")(new DiscountRefused("no such account", { param: "uid" })),
    holds: { code: "invalid_discount" },
  },
  { call: `DELETE ${discounts}/unknown`, key: adminKey, status: 404, holds: { code: "discount_not_found" } },
];

describe("every endpoint of the price book and its statuses", () => {
  it.each(rows.map((row, i) => [`${row.call} ${row.status} (${i})`, row] as const))("%s", (_name, row) => check(row));
});
