import { describe, it } from "vitest";
import { nodeNotFound } from "../../control-plane/fleet/errors.ts";
import { adminKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const own = "GET /v1/metrics/series";
const admin = "GET /v1/admin/metrics/series";
const requests = { name: "requests", labels: {} };

const rows: readonly Row[] = [
  { call: `${own}?names=requests`, status: 200, holds: { step_seconds: 600, series: [requests] } },
  { call: `${own}?by=model&names=requests`, status: 200, holds: { series: [{ labels: { model: "org/model" } }] } },
  { call: own, status: 401, key: null },
  { call: `${own}?step=61`, status: 422, holds: { code: "bad_range" } },
  { call: `${own}?step=1`, status: 422 },
  { call: `${own}?from=now-91d`, status: 422, holds: { code: "bad_range" } },
  { call: `${own}?from=yesterday`, status: 422 },
  { call: `${own}?by=account`, status: 422 },
  { call: `${own}?limit=21`, status: 422 },
  { call: `${own}?names=requests,cats`, status: 422, holds: { code: "unknown_series" } },
  {
    call: `${admin}?names=requests,gpus&from=now-1h`,
    status: 200,
    key: adminKey,
    holds: { series: [requests, { name: "gpus" }] },
  },
  {
    call: `${admin}?names=requests&by=account`,
    status: 200,
    key: adminKey,
    holds: { series: [{ labels: { account: "u:1000000000001", name: "ada@example.com" } }] },
  },
  {
    call: `${admin}?names=gpus&by=host`,
    status: 200,
    key: adminKey,
    holds: { series: [{ labels: { host: "host-1" } }] },
  },
  {
    call: `${admin}?names=gpu_use_ratio&by=gpu&node=host-1`,
    status: 200,
    key: adminKey,
    holds: { series: [{ labels: { gpu: "GPU-1" } }] },
  },
  { call: admin, status: 401, key: null },
  { call: admin, status: 403, holds: { code: "admin_only" } },
  { call: `${admin}?by=gpu`, status: 422, key: adminKey, holds: { code: "host_missing" } },
  { call: `${admin}?by=key`, status: 422, key: adminKey },
  {
    call: `${admin}?by=host&node=unknown`,
    status: 404,
    key: adminKey,
    given: refuse("hosts", "idOf")(nodeNotFound("unknown")),
  },
];

describe("time series", () => {
  it.each(rows)("$call answers $status", check);
});
