import { describe, it } from "vitest";
import { nodeConnected, nodeInUse } from "../../control-plane/fleet/errors.ts";
import { adminKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const progress = { node_id: "node-1", total: 3, left: 1, fixed: 1, in_flight: 4 };

const operations = [
  { call: "POST /v1/admin/nodes/node-1/cordon", body: { note: "fans" }, holds: { node_id: "node-1" } },
  { call: "POST /v1/admin/nodes/node-1/drain", body: { deadline_seconds: 60 }, holds: progress },
  { call: "GET /v1/admin/nodes/node-1/drain", holds: progress },
  {
    call: "GET /v1/admin/nodes/node-1/drain-preview",
    holds: {
      node_id: "node-1",
      instances: [
        {
          instance_id: "instance-1",
          deploy_name: "ada/llm",
          account: { email: "ada@example.com" },
          in_flight: 4,
          outcome: "waits",
          to: null,
          reasons: [{ host: "node-2" }],
        },
      ],
    },
  },
  { call: "DELETE /v1/admin/nodes/node-1", holds: { node_id: "node-1" } },
  {
    call: "POST /v1/admin/nodes/node-1/end-unknown",
    body: { note: "restored" },
    holds: { node_id: "node-1", instance_ids: ["stranger"] },
  },
  {
    call: "GET /v1/admin/nodes/rebalance",
    holds: { proposal: { largest_now: 1, largest_after: 2, moves: [{ to: "node-2", gap_seconds: 0 }] } },
  },
] as const;

const rows: readonly Row[] = [
  ...operations.flatMap(({ holds, ...row }): Row[] => [
    { ...row, status: 200, key: adminKey, holds },
    { ...row, status: 401, key: null },
    { ...row, status: 403, holds: { code: "admin_only" } },
  ]),
  {
    call: "POST /v1/admin/nodes/node-1/drain",
    status: 422,
    key: adminKey,
    body: { deadline_seconds: -1 },
    holds: { detail: [{ loc: ["body", "deadline_seconds"], type: "greater_than_equal" }] },
  },
  {
    call: "POST /v1/admin/nodes/node-1/end-unknown",
    status: 422,
    key: adminKey,
    body: { instance_ids: "stranger" },
    holds: { detail: [{ loc: ["body", "instance_ids"] }] },
  },
  {
    call: "POST /v1/admin/nodes/node-1/cordon",
    status: 422,
    key: adminKey,
    body: { note: 5 },
    holds: { detail: [{ loc: ["body", "note"] }] },
  },
  ...(
    [
      ["cordon", { gpu: "GPU-0" }],
      ["uncordon", { gpus: ["GPU-0"] }],
      ["drain", { deadline: 60 }],
      ["end-unknown", { instances: ["stranger"] }],
    ] as const
  ).map(
    ([act, body]): Row => ({
      call: `POST /v1/admin/nodes/node-1/${act}`,
      status: 422,
      key: adminKey,
      body,
      holds: { detail: [{ loc: ["body", Object.keys(body)[0]], type: "extra_forbidden" }] },
    }),
  ),
  // A host with a live agent, or with instances: the installation of the contract tests has none.
  ...[nodeConnected("node-1"), nodeInUse("node-1")].map(
    (error): Row => ({
      call: "DELETE /v1/admin/nodes/node-1",
      status: 409,
      key: adminKey,
      given: refuse("hosts", "remove")(error),
      holds: { code: error.code },
    }),
  ),
];

describe("hosts taken out of use", () => {
  it.each(rows)("$call answers $status", check);
});
