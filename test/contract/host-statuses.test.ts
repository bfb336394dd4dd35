// What needs a host with instances: figures, logs and the operator's pages of hosts.
import { describe, it } from "vitest";
import { adminKey, deployment } from "../fakes/ports.ts";
import { check, type Row } from "./status-row.ts";

const id = deployment().id;

const rows: readonly Row[] = [
  {
    call: `GET /deploy/${id}/stats?from=1786000000&to=now`,
    status: 200,
    // Cents, seconds and milliseconds.
    holds: {
      requests: 12,
      total_time: 2.5,
      total_tokens: 150,
      total_amount: 1.5,
      avg_time: 208.33,
      avg95_time: 400,
      errors: 1,
    },
  },
  {
    call: `GET /deploy/${id}/stats2`,
    status: 200,
    holds: {
      llm: { requests: 12, avg_ttft_ms: 20, avg95_tpt_ms: 9, total_amount_cents: 1.5 },
      embeddings: null,
      time: null,
    },
  },
  {
    call: `GET /v1/logs/query?deploy_id=${id}`,
    status: 200,
    holds: { entries: [["1682343934.123456789", "loading"]] },
  },
  {
    call: `GET /v1/logs/query?deploy_id=${id}&limit=1001`,
    status: 422,
    holds: { detail: [{ loc: ["query", "limit"], type: "less_than_equal" }] },
  },
  { call: `GET /v1/logs/query?deploy_id=${id}&from=100&to=9000000`, status: 400 },
  { call: "GET /v1/logs/query?deploy_id=unknown", status: 404 },

  {
    call: `GET /v1/deployment_logs/query?deploy_id=${id}`,
    status: 200,
    holds: { entries: { "instance-1": [["1682343934.123456789", "loading"]] } },
  },
  { call: `GET /v1/deployment_logs/query?deploy_id=${id}&pod_name=other`, status: 200, holds: { entries: {} } },
  { call: `GET /v1/deployment_logs/query?deploy_id=${id}`, status: 401, key: null },
  { call: `GET /v1/deployment_logs/query?deploy_id=${id}&from=soon`, status: 400 },
  { call: "GET /v1/deployment_logs/query?deploy_id=NotMine", status: 404 },
  {
    call: "GET /v1/deployment_logs/query",
    status: 422,
    holds: { detail: [{ loc: ["query", "deploy_id"], type: "missing" }] },
  },
  { call: "GET /v1/admin/nodes", status: 200, key: adminKey, holds: { nodes: [{ state: "ready" }] } },
  { call: "GET /v1/admin/hosts", status: 200, key: adminKey, holds: { hosts: [{ name: "node-1" }] } },
  { call: "GET /v1/admin/nodes", status: 403 },
  {
    call: "GET /v1/admin/nodes/node-1",
    status: 200,
    key: adminKey,
    holds: {
      figures_age_seconds: 1.5,
      gpu_sample_age_seconds: 2,
      gpus: [{ deploy_id: "D000000000000001", utilization_ratio: 0.25, temperature_celsius: null, is_healthy: false }],
      instances: [
        { phase: "ready", in_flight: 3, tokens_per_second: 40.5, kv_cache_ratio: null, formats: ["responses"] },
      ],
      disks: [],
    },
  },
  { call: "GET /v1/admin/nodes/node-1", status: 403 },
  {
    call: "POST /v1/admin/nodes/node-1/uncordon",
    status: 200,
    key: adminKey,
    body: { gpu: "GPU-0", note: "replaced" },
    holds: { name: "node-1" },
  },
  { call: "POST /v1/admin/nodes/node-1/uncordon", status: 403, body: {} },
  {
    call: "POST /v1/admin/nodes/node-1/uncordon",
    status: 422,
    key: adminKey,
    body: { gpu: 7 },
    holds: { detail: [{ loc: ["body", "gpu"] }] },
  },
];

describe("hosts and what runs on them", () => {
  it.each(rows.map((row) => [`${row.call} ${row.status}`, row] as const))("%s", (_name, row) => check(row));
});
