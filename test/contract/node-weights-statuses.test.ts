import { describe, it } from "vitest";
import { adminKey } from "../fakes/ports.ts";
import { check, type Row } from "./status-row.ts";

const list = "/v1/admin/nodes/node-1/weights";
const one = `${list}/prefetch1`;
const body = { repo: "acme/tiny" };

const endpoints = [
  { call: `POST ${list}`, verb: "ask", body },
  { call: `GET ${list}`, verb: "list" },
  { call: `DELETE ${one}`, verb: "drop" },
] as const satisfies readonly (Pick<Row, "call" | "body"> & { verb: string })[];

const rows: readonly Row[] = [
  ...endpoints.flatMap(({ verb, ...row }): Row[] => [
    { ...row, key: adminKey, status: 200 },
    { ...row, key: null, status: 401 },
    { ...row, status: 403, holds: { code: "admin_only" } },
  ]),
  {
    call: `POST ${list}`,
    key: adminKey,
    body: { ...body, format: "safetensors", pin: true },
    status: 200,
    holds: { repo: "acme/tiny", revision: "main", format: "safetensors", pinned: true, state: "waiting" },
  },
  {
    call: `GET ${list}`,
    key: adminKey,
    status: 200,
    holds: { weights: [{ prefetch_id: "prefetch1", state: "ready" }] },
  },
  { call: "POST /v1/admin/nodes/none/weights", key: adminKey, body, status: 404, holds: { code: "host_not_found" } },
  { call: "GET /v1/admin/nodes/none/weights", key: adminKey, status: 404, holds: { code: "host_not_found" } },
  { call: `DELETE ${list}/none`, key: adminKey, status: 404, holds: { code: "prefetch_not_found" } },
  ...[{ repo: "no-owner" }, { repo: "a/../b" }, { ...body, format: "pickle" }, { ...body, revision: "a b" }].map(
    (bad): Row => ({ call: `POST ${list}`, key: adminKey, body: bad, status: 422 }),
  ),
];

describe("prefetched weights of a host", () => {
  it.each(rows.map((row, i) => [`${row.call} ${row.status} (${i})`, row] as const))("%s", (_name, row) => check(row));
});
