import { describe, it } from "vitest";
import * as accounts from "../../control-plane/accounts/errors.ts";
import { ada, adminKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const own = "/payment/program/application" as const;
const all = "/v1/admin/program-applications" as const;
const one = `${all}/AppOfAda00000000` as const;
const form = {
  company: "Engines Ltd",
  ceo: "Ada L",
  funding: "seed",
  founded_on: "2025-01-01",
  website: "https://e.x",
};
const away = new accounts.AccountStoreAway(new Error("x"));

const operatorOnly = [
  { call: `GET ${all}?status=pending&limit=1`, verb: "list" },
  { call: `POST ${one}/approve`, verb: "decide", body: { note: "welcome", credit_usd: 100 } },
  { call: `POST ${one}/reject`, verb: "decide", body: { note: "too late" } },
] as const;

const rows: readonly Row[] = [
  { call: `POST ${own}`, status: 200, body: form, holds: { status: "pending", email: ada.email, uid: ada.account } },
  // A client made from the contract sends the whole record.
  { call: `POST ${own}`, status: 200, body: { ...form, id: "", uid: "", created_at: 0, status: "approved", deal: "" } },
  { call: `POST ${own}`, status: 401, body: form, key: null },
  { call: `POST ${own}`, status: 422, body: { ...form, ceo: "" }, holds: { detail: [{ loc: ["body", "ceo"] }] } },
  {
    call: `POST ${own}`,
    status: 409,
    body: form,
    given: refuse("applications", "apply")(new accounts.ApplicationOpen()),
    headers: { "x-should-retry": "false" },
  },
  { call: `POST ${own}`, status: 503, body: form, given: refuse("applications", "apply")(away) },
  { call: `GET ${own}`, status: 200, holds: { company: "Engines Ltd", decided_at: null } },
  { call: `GET ${own}`, status: 401, key: null },
  { call: `GET ${own}`, status: 404, given: refuse("applications", "own")(new accounts.ApplicationNotFound()) },
  { call: `GET ${own}`, status: 503, given: refuse("applications", "own")(away) },
  ...operatorOnly.flatMap(({ verb, ...row }): Row[] => [
    { ...row, key: adminKey, status: 200 },
    { ...row, key: null, status: 401 },
    { ...row, status: 403, holds: { code: "admin_only" } },
    { ...row, key: adminKey, status: 503, given: refuse("applications", verb)(away) },
  ]),
  { call: `GET ${all}?status=open`, key: adminKey, status: 422, holds: { detail: [{ loc: ["query", "status"] }] } },
  {
    call: `POST ${one}/approve`,
    key: adminKey,
    body: { note: "welcome" },
    status: 200,
    holds: { status: "approved", decided_at: 1_786_000_060, decision_note: "welcome" },
  },
  ...(["approve", "reject"] as const).flatMap((verb): Row[] => [
    { call: `POST ${all}/unknown/${verb}`, key: adminKey, body: { note: "n" }, status: 404 },
    {
      call: `POST ${one}/${verb}`,
      key: adminKey,
      body: {},
      status: 422,
      holds: { detail: [{ loc: ["body", "note"] }] },
    },
    {
      call: `POST ${one}/${verb}`,
      key: adminKey,
      body: { note: "n" },
      status: 409,
      given: refuse("applications", "decide")(new accounts.ApplicationDecided()),
      holds: { code: "application_decided" },
    },
  ]),
];

describe("every endpoint of the startup program and its statuses", () => {
  it.each(rows.map((row, i) => [`${row.call} ${row.status} (${i})`, row] as const))("%s", (_name, row) => check(row));
});
