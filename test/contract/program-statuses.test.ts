import { describe } from "vitest";
import { checkStatuses, createCustomer, operatorKey, type StatusRow, succeed, type Values } from "./status-table.ts";

const own = "/payment/program/application" as const;
const all = "/v1/admin/program-applications" as const;
const one = `${all}/{application}` as const;
const form = {
  company: "Engines Ltd",
  ceo: "Ada L",
  funding: "seed",
  founded_on: "2025-01-01",
  website: "https://e.x",
};

/** An account that has not applied. */
async function newcomer(): Promise<Values> {
  const { uid, key, email } = await createCustomer();
  return { uid, key, email };
}

async function applied(): Promise<Values> {
  const values = await newcomer();
  const { id } = await succeed({ call: `POST ${own}`, body: form }, values);
  return { ...values, application: id };
}

async function decided(): Promise<Values> {
  const values = await applied();
  await succeed({ call: `POST ${one}/reject`, key: operatorKey, body: { note: "no" } }, values);
  return values;
}

const operatorOnly = [
  { call: `GET ${all}?status=pending&limit=1` },
  { call: `POST ${one}/approve`, body: { note: "welcome", credit_usd: 100 } },
  { call: `POST ${one}/reject`, body: { note: "too late" } },
] as const;

const rows: readonly StatusRow[] = [
  {
    call: `POST ${own}`,
    status: 200,
    given: newcomer,
    body: form,
    holds: { status: "pending", email: "{email}", uid: "{uid}" },
  },
  // A client made from the contract sends the whole record.
  {
    call: `POST ${own}`,
    status: 200,
    given: newcomer,
    body: { ...form, id: "", uid: "", created_at: 0, status: "approved", deal: "" },
    holds: { status: "pending" },
  },
  { call: `POST ${own}`, status: 401, body: form, key: null },
  { call: `POST ${own}`, status: 422, body: { ...form, ceo: "" }, holds: { detail: [{ loc: ["body", "ceo"] }] } },
  { call: `POST ${own}`, status: 409, body: form, headers: { "x-should-retry": "false" } },
  { call: `GET ${own}`, status: 200, holds: { company: "Engines Ltd", decided_at: null } },
  { call: `GET ${own}`, status: 401, key: null },
  { call: `GET ${own}`, status: 404, given: newcomer },
  ...operatorOnly.flatMap((row): StatusRow[] => [
    { ...row, key: operatorKey, status: 200, given: applied },
    { ...row, key: null, status: 401 },
    { ...row, status: 403, holds: { code: "admin_only" } },
  ]),
  { call: `GET ${all}?status=open`, key: operatorKey, status: 422, holds: { detail: [{ loc: ["query", "status"] }] } },
  {
    call: `POST ${one}/approve`,
    key: operatorKey,
    given: applied,
    body: { note: "welcome" },
    status: 200,
    holds: { status: "approved", decision_note: "welcome" },
  },
  ...(["approve", "reject"] as const).flatMap((verb): StatusRow[] => [
    { call: `POST ${all}/unknown/${verb}`, key: operatorKey, body: { note: "n" }, status: 404 },
    {
      call: `POST ${one}/${verb}`,
      key: operatorKey,
      body: {},
      status: 422,
      holds: { detail: [{ loc: ["body", "note"] }] },
    },
    {
      call: `POST ${one}/${verb}`,
      key: operatorKey,
      given: decided,
      body: { note: "n" },
      status: 409,
      holds: { code: "application_decided" },
    },
  ]),
];

describe("the startup program", () => {
  checkStatuses(applied, rows);
});
