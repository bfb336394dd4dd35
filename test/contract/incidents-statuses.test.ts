import { describe, it } from "vitest";
import { adminKey } from "../fakes/ports.ts";
import { check, type Row } from "./status-row.ts";

const path = "GET /v1/admin/incidents";
const failed = {
  ...{ id: "8", kind: "deployment_failed", severity: "warning", runbook: "operations/incidents#deployment-failed" },
  ...{ deployment: { id: "DpM4BkrjEspUwmTa", name: "ada/my-llm" }, node: null, ended_at: null },
};
const silent = { kind: "host_silent", severity: "critical", node: { id: "host-1", name: "gpu-1" }, account: null };

const rows: readonly Row[] = [
  { call: path, status: 200, key: adminKey, holds: { incidents: [failed], open: { critical: 0, warning: 1 } } },
  { call: `${path}?state=ended&kind=host_silent`, status: 200, key: adminKey, holds: { incidents: [silent] } },
  { call: path, status: 401, key: null },
  { call: path, status: 403, holds: { code: "admin_only" } },
  { call: `${path}?state=closed`, status: 422, key: adminKey },
  { call: `${path}?kind=dog`, status: 422, key: adminKey },
  { call: `${path}?severity=high`, status: 422, key: adminKey },
  { call: `${path}?limit=201`, status: 422, key: adminKey },
];

describe("incidents", () => {
  it.each(rows)("$call answers $status", check);
});
