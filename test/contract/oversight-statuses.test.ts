import { describe, it } from "vitest";
import { DeploymentConflict, wrongDeploymentState } from "../../control-plane/deployments/errors.ts";
import { adminKey } from "../fakes/ports.ts";
import { check, type Row, refuse } from "./status-row.ts";

const id = "DpM4BkrjEspUwmTa";
const one = `/v1/admin/deployments/${id}`;
const note = { note: "the engine hangs" };
const deployment = {
  deploy_id: id,
  kind: "model",
  account: { email: "ada@example.com" },
  hosts: [{ node_id: "host-1" }],
};
const event = { kind: "instance.ready", deploy_id: id, instance_id: "instance-1", state: "ready" };
const list = { deployments: [deployment], next_cursor: null };
const events = { events: [{ ...event, node_id: "host-1" }], next_cursor: null };

const operations = [
  { call: "GET /v1/admin/deployments?status=running&name=chat", holds: list },
  { call: "GET /v1/admin/containers", holds: list },
  { call: "GET /v1/admin/agent-instances", holds: list },
  { call: `GET ${one}`, holds: deployment },
  { call: `GET ${one}/logs`, holds: { entries: [["1682343934.123456789", "loading"]] } },
  { call: `GET ${one}/events`, holds: events },
  { call: "GET /v1/admin/nodes/node-1/events", holds: events },
  { call: "GET /v1/admin/events?node=host-1&kind=instance", holds: events },
  { call: `POST ${one}/stop`, body: note, holds: { deploy_id: id } },
  { call: `POST ${one}/restart`, body: note, holds: { deploy_id: id } },
  { call: `DELETE ${one}?note=abandoned`, holds: { deploy_id: id } },
] as const;

const rows: readonly Row[] = [
  ...operations.flatMap(({ holds, ...row }): Row[] => [
    { ...row, status: 200, key: adminKey, holds },
    { ...row, status: 401, key: null },
    { ...row, status: 403, holds: { code: "admin_only" } },
  ]),
  ...["", "/logs", "/events"].map(
    (path): Row => ({ call: `GET /v1/admin/deployments/unknown${path}`, status: 404, key: adminKey }),
  ),
  ...["stop", "restart"].flatMap((verb): Row[] => [
    { call: `POST /v1/admin/deployments/unknown/${verb}`, status: 404, key: adminKey, body: note },
    { call: `POST ${one}/${verb}`, status: 422, key: adminKey, body: { note: "" } },
    { call: `POST ${one}/${verb}`, status: 422, key: adminKey, body: { ...note, force: true } },
  ]),
  {
    call: `POST ${one}/stop`,
    status: 400,
    key: adminKey,
    body: note,
    given: refuse("oversight", "stop")(wrongDeploymentState("This deployment is already stopped.")),
    holds: { code: "wrong_state" },
  },
  {
    call: `DELETE ${one}?note=abandoned`,
    status: 409,
    key: adminKey,
    given: refuse("oversight", "remove")(new DeploymentConflict("The deployment is already deleted.")),
  },
  { call: "DELETE /v1/admin/deployments/unknown?note=abandoned", status: 404, key: adminKey },
  { call: `DELETE ${one}`, status: 422, key: adminKey, holds: { detail: [{ loc: ["query", "note"] }] } },
  { call: "GET /v1/admin/deployments?status=sleepy", status: 400, key: adminKey },
  { call: "GET /v1/admin/deployments?limit=1000", status: 422, key: adminKey },
  { call: "GET /v1/admin/deployments?kind=dog", status: 422, key: adminKey },
  { call: `GET ${one}/logs?from=yesterday`, status: 400, key: adminKey },
  { call: `GET /deploy/${id}/events`, status: 200, holds: { events: [event], next_cursor: null } },
  { call: `GET /deploy/${id}/events`, status: 401, key: null },
  { call: "GET /deploy/unknown/events", status: 404 },
  { call: `GET /deploy/${id}/events?limit=0`, status: 422 },
];

describe("deployments of all accounts and events of the fleet", () => {
  it.each(rows)("$call answers $status", check);
});
