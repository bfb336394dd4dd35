// Every status that the operations of identity providers declare.
import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import {
  browser,
  checkStatuses,
  createCustomer,
  operate,
  operatorKey,
  type StatusRow,
  signIn,
  succeed,
  type Values,
} from "./status-table.ts";

const providers = "/v1/admin/identity-providers";
const one = `${providers}/{provider}`;
const mine = "/v1/me/identities";
const inSession = { key: null, send: browser } as const;
const asOperator = { key: operatorKey } as const;

/** The host name does not exist (RFC 6761), so no provider is reached. */
const body = (change: object = {}) => ({
  name: "Example",
  issuer: `https://${randomBytes(6).toString("hex")}.invalid`,
  client_id: "stoker",
  client_secret: "secret",
  ...change,
});

async function arrange(): Promise<Values> {
  const customer = await createCustomer();
  const domain = `${randomBytes(6).toString("hex")}.example`;
  const { id, issuer } = await operate(`POST ${providers}`, body({ domains: [domain], is_listed: false }));
  return { ...customer, ...(await signIn(customer)), provider: id, issuer, domain };
}

const rows: readonly StatusRow[] = [
  {
    ...asOperator,
    call: `POST ${providers}`,
    status: 200,
    body: body({ role_of_group: { engineers: "developer" } }),
    holds: { has_client_secret: true, is_enforced: false, is_listed: true, role_of_group: { engineers: "developer" } },
  },
  { ...asOperator, call: `POST ${providers}`, status: 400, body: "{" },
  { call: `POST ${providers}`, status: 401, key: null, body: body() },
  { call: `POST ${providers}`, status: 403, body: body() },
  { ...asOperator, call: `POST ${providers}`, status: 409, body: body({ issuer: "{issuer}" }) },
  { ...asOperator, call: `POST ${providers}`, status: 409, body: body({ domains: ["{domain}"] }) },
  { ...asOperator, call: `POST ${providers}`, status: 413, body: body({ name: "x".repeat(200_000) }) },
  { ...asOperator, call: `POST ${providers}`, status: 422, body: body({ domains: ["UPPER.example"] }) },
  {
    ...asOperator,
    call: `POST ${providers}`,
    status: 422,
    body: body({ issuer: "http://login.example.com" }),
    holds: { code: "bad_identity_provider" },
  },
  {
    ...asOperator,
    call: `POST ${providers}`,
    status: 422,
    body: body({ organization: "u:0000000000000" }),
    holds: { code: "bad_identity_provider" },
  },
  { ...asOperator, call: `GET ${providers}`, status: 200, holds: { providers: expect.any(Array) } },
  { call: `GET ${providers}`, status: 401, key: null },
  { call: `GET ${providers}`, status: 403 },
  { ...asOperator, call: `GET ${one}`, status: 200, holds: { id: "{provider}", has_scim_token: false } },
  { call: `GET ${one}`, status: 401, key: null },
  { call: `GET ${one}`, status: 403 },
  { ...asOperator, call: `GET ${providers}/unknown`, status: 404, holds: { code: "identity_provider_not_found" } },
  { ...asOperator, call: `PATCH ${one}`, status: 200, body: { name: "Other" }, holds: { name: "Other" } },
  { ...asOperator, call: `PATCH ${one}`, status: 400, body: "{" },
  { call: `PATCH ${one}`, status: 401, key: null, body: {} },
  { call: `PATCH ${one}`, status: 403, body: {} },
  { ...asOperator, call: `PATCH ${providers}/unknown`, status: 404, body: {} },
  {
    ...asOperator,
    call: `PATCH ${providers}/{second}`,
    status: 409,
    body: { domains: ["{domain}"] },
    given: async () => ({ second: (await operate(`POST ${providers}`, body())).id }),
  },
  { ...asOperator, call: `PATCH ${one}`, status: 413, body: { name: "x".repeat(200_000) } },
  { ...asOperator, call: `PATCH ${one}`, status: 422, body: { default_role: "owner" } },
  {
    ...asOperator,
    call: `DELETE ${providers}/{second}`,
    status: 200,
    given: async () => ({ second: (await operate(`POST ${providers}`, body())).id }),
  },
  { call: `DELETE ${one}`, status: 401, key: null },
  { call: `DELETE ${one}`, status: 403 },
  { ...asOperator, call: `DELETE ${providers}/unknown`, status: 404 },

  {
    ...asOperator,
    call: `POST ${one}/scim-token`,
    status: 200,
    holds: { token: expect.stringMatching(/^scim_/), url: expect.stringMatching(/\/scim\/v2$/) },
  },
  { call: `POST ${one}/scim-token`, status: 401, key: null },
  { call: `POST ${one}/scim-token`, status: 403 },
  { ...asOperator, call: `POST ${providers}/unknown/scim-token`, status: 404 },
  { ...asOperator, call: `DELETE ${one}/scim-token`, status: 200, holds: { has_scim_token: false } },
  { call: `DELETE ${one}/scim-token`, status: 401, key: null },
  { call: `DELETE ${one}/scim-token`, status: 403 },
  { ...asOperator, call: `DELETE ${providers}/unknown/scim-token`, status: 404 },

  { call: "GET /v1/auth/providers", status: 200, key: null, holds: { providers: expect.any(Array) } },
  {
    call: "GET /v1/auth/providers?email=ada@{domain}",
    status: 200,
    key: null,
    holds: { providers: expect.arrayContaining([expect.objectContaining({ is_enforced: false })]) },
  },
  { call: `GET /v1/auth/providers?email=${"x".repeat(400)}`, status: 422, key: null },

  { ...inSession, call: `GET ${mine}`, status: 200, holds: { identities: [] } },
  { call: `GET ${mine}`, status: 401, key: null },
  {
    ...inSession,
    call: `POST ${mine}`,
    status: 400,
    body: "{",
    send: { ...browser, "content-type": "application/json" },
  },
  { call: `POST ${mine}`, status: 401, key: null, body: { provider_id: "x" } },
  { ...inSession, call: `POST ${mine}`, status: 404, body: { provider_id: "unknown" } },
  {
    ...inSession,
    call: `POST ${mine}`,
    status: 502,
    body: { provider_id: "{provider}" },
    holds: { code: "identity_provider_failed" },
  },
  { ...inSession, call: `POST ${mine}`, status: 413, body: { provider_id: "x".repeat(20_000) } },
  { ...inSession, call: `POST ${mine}`, status: 422, body: {} },
  { call: `POST ${mine}`, status: 404, body: { provider_id: "x" }, holds: { code: "no_session" } },
  { call: `DELETE ${mine}/unknown`, status: 401, key: null },
  { ...inSession, call: `DELETE ${mine}/unknown`, status: 404, holds: { code: "identity_not_found" } },
];

const workloads = "/v1/workload-identities";
const token = "POST /v1/auth/workload-token";
const workload = (change: object = {}) => ({
  name: `ci-${randomBytes(6).toString("hex")}`,
  issuer: "https://ci.invalid",
  audience: "stoker",
  subject: "repo:acme/app",
  ...change,
});
const unsigned = (claims: object) =>
  [{ alg: "RS256" }, claims, "signature"]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");

/** A customer with a workload identity. */
async function withWorkload(): Promise<Values> {
  const customer = await createCustomer();
  const body = workload({ name: "taken" });
  const { id } = await succeed({ call: `POST ${workloads}`, key: customer.key, body });
  return { ...customer, workload: id };
}

const workloadRows: readonly StatusRow[] = [
  {
    call: `POST ${workloads}`,
    status: 200,
    body: workload(),
    holds: { role: "inference", life_seconds: 900, claims: {}, allowed_models: null, last_used_at: null },
  },
  { call: `POST ${workloads}`, status: 400, body: "{" },
  { call: `POST ${workloads}`, status: 401, key: null, body: workload() },
  {
    call: `POST ${workloads}`,
    status: 403,
    body: workload(),
    given: async () => withRole("read"),
    holds: { code: "role_not_allowed" },
  },
  { call: `POST ${workloads}`, status: 409, body: workload({ name: "taken" }) },
  { call: `POST ${workloads}`, status: 413, body: workload({ subject: "x".repeat(200_000) }) },
  { call: `POST ${workloads}`, status: 422, body: workload({ life_seconds: 3601 }) },
  {
    call: `POST ${workloads}`,
    status: 422,
    body: workload({ subject: "*" }),
    holds: { code: "bad_workload_identity" },
  },
  { call: `GET ${workloads}`, status: 200, holds: { workload_identities: expect.any(Array) } },
  { call: `GET ${workloads}`, status: 401, key: null },
  { call: `GET ${workloads}/{workload}`, status: 200, holds: { id: "{workload}" } },
  { call: `GET ${workloads}/{workload}`, status: 401, key: null },
  { call: `GET ${workloads}/unknown`, status: 404, holds: { code: "workload_identity_not_found" } },
  { call: `DELETE ${workloads}/unknown`, status: 401, key: null },
  { call: `DELETE ${workloads}/unknown`, status: 404 },
  {
    call: `DELETE ${workloads}/{second}`,
    status: 200,
    given: async ({ key }) => ({
      second: (await succeed({ call: `POST ${workloads}`, key: key as string, body: workload() })).id,
    }),
  },
  { call: token, status: 400, key: null, body: "{" },
  {
    call: token,
    status: 401,
    key: null,
    body: { workload_identity_id: "unknown", token: "a.b.c" },
    holds: { code: "workload_token_refused" },
  },
  { call: token, status: 413, key: null, body: { workload_identity_id: "x", token: "x".repeat(40_000) } },
  { call: token, status: 422, key: null, body: {} },
  {
    call: token,
    status: 502,
    key: null,
    body: { workload_identity_id: "{workload}", token: unsigned({ iss: "https://ci.invalid", aud: "stoker" }) },
    holds: { code: "workload_issuer_failed" },
  },
];

async function withRole(role: string): Promise<Values> {
  const customer = await createCustomer();
  const { token: key } = await succeed({
    call: "POST /v1/api-tokens",
    key: customer.key,
    body: { name: role, role },
  });
  return { key };
}

describe("workload identities", () => {
  checkStatuses(withWorkload, workloadRows);
});

describe("identity providers", () => {
  checkStatuses(arrange, rows);
});
