import { describe, it } from "vitest";
import { adminKey } from "../fakes/ports.ts";
import { addHost } from "./host-rows.ts";
import { check, type Row } from "./status-row.ts";
import { checkStatuses, operatorKey, type StatusRow, succeed, type Values } from "./status-table.ts";

const endpoints = [
  { call: "GET /v1/admin/nodes/enrolment" },
  { call: "POST /v1/admin/nodes/tokens", body: { pool: "a", ttl_seconds: 60 } },
  { call: "POST /v1/admin/nodes/host-1/revoke", body: { note: "stolen" } },
  { call: "POST /v1/admin/nodes/host-1/adopt", body: {} },
] as const satisfies readonly Pick<Row, "call" | "body">[];

const rows: readonly Row[] = [
  ...endpoints.flatMap((row): Row[] => [
    { ...row, key: adminKey, status: 200 },
    { ...row, key: null, status: 401, headers: { "www-authenticate": "Bearer" } },
    { ...row, status: 403, holds: { code: "admin_only" } },
  ]),
  {
    ...endpoints[0],
    key: adminKey,
    status: 200,
    holds: {
      agent_address: { host: "127.0.0.1", port: 9090, is_local: true },
      authority: { sha256: "hash-of-the-authority", node_certificate_hours: 72 },
      tokens: [{ token_id: "token-1", pool: "lab", node_id: null, created_by: "u:operator", used_at: null }],
      nodes: [{ node_id: "node-9", name: null, revoked_at: null }],
    },
  },
  {
    ...endpoints[1],
    key: adminKey,
    status: 200,
    holds: { token: "t.s.h", token_id: "t", expires_at: "2026-08-06T07:21:40+00:00" },
    headers: { "cache-control": "no-store" },
  },
  {
    ...endpoints[1],
    body: { ttl_seconds: 1 },
    key: adminKey,
    status: 422,
    holds: { detail: [{ loc: ["body", "ttl_seconds"], type: "greater_than_equal" }] },
  },
  { ...endpoints[2], body: { note: 1 }, key: adminKey, status: 422, holds: { detail: [{ loc: ["body", "note"] }] } },
  { ...endpoints[3], body: { note: 1 }, key: adminKey, status: 422, holds: { detail: [{ loc: ["body", "note"] }] } },
];

describe("every endpoint of host certificates and its statuses", () => {
  it.each(rows)("$call -> $status", check);
});

const unknown = { key: operatorKey, status: 404, holds: { code: "node_not_found" } } as const;
const unknownHost: readonly StatusRow[] = [
  { ...unknown, call: "POST /v1/admin/nodes/tokens", body: { node_id: "unknown" } },
  ...["revoke", "adopt", "cordon", "uncordon", "drain", "end-unknown"].map(
    (act): StatusRow => ({ ...unknown, call: `POST /v1/admin/nodes/unknown/${act}`, body: {} }),
  ),
  { ...unknown, call: "GET /v1/admin/nodes/unknown" },
  { ...unknown, call: "GET /v1/admin/nodes/unknown/drain" },
  { ...unknown, call: "GET /v1/admin/nodes/unknown/drain-preview" },
  { ...unknown, call: "DELETE /v1/admin/nodes/unknown" },
];

describe("calls that name an unknown host", () => {
  checkStatuses(async () => ({}), unknownHost);
});

const conflict = { key: operatorKey, status: 409, body: {} } as const;
const before = (act: string) => (values: Values) =>
  succeed({ call: `POST /v1/admin/nodes/{host}/${act}`, key: operatorKey, body: {} }, values);
const knownHost: readonly StatusRow[] = [
  { ...conflict, call: "POST /v1/admin/nodes/{host}/adopt", holds: { code: "node_not_behind" } },
  { ...conflict, call: "POST /v1/admin/nodes/{host}/uncordon", holds: { code: "nothing_cordoned" } },
  {
    ...conflict,
    call: "POST /v1/admin/nodes/{host}/revoke",
    given: before("revoke"),
    holds: { code: "node_revoked" },
  },
  { ...conflict, call: "POST /v1/admin/nodes/{host}/cordon", given: before("drain"), holds: { code: "node_draining" } },
];

describe("calls that the state of a host excludes", () => {
  checkStatuses(addHost, knownHost);
});
