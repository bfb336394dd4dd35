import { describe, expect, it } from "vitest";
import * as agents from "../../control-plane/agent-instances/errors.ts";
import { accountSuspended } from "../../control-plane/deployments/errors.ts";
import { agentId, backupId } from "../fakes/agent-instance-ports.ts";
import { adminKey } from "../fakes/ports.ts";
import { answerTo, check, type Row, refuse } from "./status-row.ts";

const request = { name: "my-agent", agent_type_id: "workspace", plan_id: "standard" };
const create = refuse("agentInstances", "create");
const path = `/v1/agent/${agentId}`;
const wrongState = new agents.AgentWrongState("It is stopped.");

const posts = ["stop", "start", "update"] as const;
const verbs = ["backup", `backups/${backupId}/restore`, `backups/${backupId}/verify`];
const methodOf = (verb: string) => (verb === "backup" ? "backup" : verb.endsWith("restore") ? "restore" : "tryRestore");

const rows: readonly Row[] = [
  {
    call: "GET /v1/agent/catalog",
    status: 200,
    holds: {
      workspace: {
        pretty_name: "Workspace",
        has_dashboard: false,
        plans: [{ id: "standard", vcpu: 1, ram_gb: 1, price_per_hour: 0.06, monthly_egress_gb: 0 }],
      },
    },
  },
  { call: "GET /v1/agent/catalog", status: 401, key: null },
  { call: "POST /v1/agent", status: 200, body: request, holds: { instance_id: agentId } },
  { call: "POST /v1/agents", status: 200, body: { name: "x", agent_type_id: "workspace" } },
  { call: "POST /v1/agent", status: 400, body: request, given: create(agents.agentTypeUnknown("x")) },
  { call: "POST /v1/agent", status: 400, body: "{" },
  { call: "POST /v1/agent", status: 401, body: request, key: null },
  {
    call: "POST /v1/agent",
    status: 402,
    body: request,
    given: create(agents.noAgentFunds(5_000_000n)),
    headers: { "x-should-retry": "false" },
    holds: { error: /USD 0\.005/ },
  },
  { call: "POST /v1/agent", status: 409, body: request, given: create(agents.agentNameTaken("x")) },
  { call: "POST /v1/agent", status: 422, body: { ...request, name: "" } },
  { call: "POST /v1/agent", status: 422, body: { ...request, name: "x".repeat(65) } },
  { call: "POST /v1/agent", status: 422, body: { name: "x" }, holds: { detail: [{ type: "missing" }] } },
  { call: "POST /v1/agent", status: 423, body: request, given: create(accountSuspended("balance")) },
  { call: "POST /v1/agent", status: 429, body: request, given: create(agents.tooManyAgents(20)) },
  {
    call: "POST /v1/agent",
    status: 503,
    body: request,
    given: create(agents.noAgentCapacity([{ host: "a", why: "full" }])),
    headers: { "retry-after": "60" },
    holds: { error: /a: full/ },
  },
  { call: "GET /v1/agent", status: 200 },
  { call: "GET /v1/agents?state=all", status: 200 },
  { call: "GET /v1/agent?state=asleep", status: 422 },
  { call: "GET /v1/agent", status: 401, key: null },
  {
    call: `GET ${path}`,
    status: 200,
    holds: {
      id: agentId,
      name: "my-agent",
      state: "running",
      start_ts: 1_786_000_000,
      stop_ts: null,
      price_per_hour: 0.06,
      last_backup_ts: null,
      ssh_port: null,
      fail_reason: null,
      public_ip: "203.0.113.7",
      version: "1",
      agent_type: "workspace",
      plan_id: "standard",
    },
  },
  { call: `GET ${path}`, status: 401, key: null },
  { call: `GET ${path}`, status: 404, key: adminKey, holds: { code: "agent_not_found" } },
  { call: `PATCH ${path}`, status: 200, body: { name: "other" }, holds: { name: "other" } },
  { call: `PATCH ${path}`, status: 422, body: { name: "other", plan_id: "x" } },
  { call: `PATCH ${path}`, status: 401, body: { name: "other" }, key: null },
  { call: `PATCH ${path}`, status: 404, body: { name: "other" }, key: adminKey },
  {
    call: `PATCH ${path}`,
    status: 409,
    body: { name: "other" },
    given: refuse("agentInstances", "rename")(agents.agentNameTaken("other")),
  },
  { call: `DELETE ${path}`, status: 200 },
  { call: `DELETE ${path}`, status: 401, key: null },
  { call: `DELETE ${path}`, status: 404, key: adminKey },
  { call: `DELETE ${path}`, status: 409, given: refuse("agentInstances", "remove")(agents.agentBusy()) },
  ...posts.flatMap((verb): Row[] => [
    { call: `POST ${path}/${verb}`, status: 200 },
    { call: `POST /v1/agents/${agentId}/${verb}`, status: 200 },
    { call: `POST ${path}/${verb}`, status: 401, key: null },
    { call: `POST ${path}/${verb}`, status: 404, key: adminKey },
    {
      call: `POST ${path}/${verb}`,
      status: 409,
      given: refuse("agentInstances", verb)(wrongState),
      holds: { code: "wrong_state" },
      headers: { "x-should-retry": "false" },
    },
  ]),
  { call: `POST ${path}/start`, status: 402, given: refuse("agentInstances", "start")(agents.noAgentFunds(1n)) },
  { call: `POST ${path}/start`, status: 423, given: refuse("agentInstances", "start")(accountSuspended("admin")) },
  { call: `POST ${path}/launch_token`, status: 200, holds: { dashboard_url: "https://agent-1.example/once" } },
  { call: `POST /v1/agents/${agentId}/launch_token`, status: 200 },
  { call: `POST ${path}/launch_token`, status: 401, key: null },
  { call: `POST ${path}/launch_token`, status: 404, key: adminKey },
  {
    call: `POST ${path}/launch_token`,
    status: 409,
    given: refuse("agentInstances", "launchToken")(agents.noDashboard("Workspace has no dashboard.")),
    holds: { code: "no_dashboard" },
    headers: { "x-should-retry": "false" },
  },
  {
    call: `POST ${path}/launch_token`,
    status: 423,
    given: refuse("agentInstances", "launchToken")(accountSuspended("admin")),
  },
  { call: `GET ${path}/backups`, status: 200 },
  { call: `GET ${path}/backups`, status: 401, key: null },
  { call: `GET ${path}/backups`, status: 404, key: adminKey },
  ...verbs.flatMap((verb): Row[] => [
    { call: `POST ${path}/${verb}`, status: 200 },
    { call: `POST /v1/agents/${agentId}/${verb}`, status: 200 },
    { call: `POST ${path}/${verb}`, status: 401, key: null },
    { call: `POST ${path}/${verb}`, status: 404, key: adminKey, holds: { error: /Agent instance not found/ } },
    {
      call: `POST ${path}/${verb}`,
      status: 409,
      given: refuse("agentBackups", methodOf(verb))(agents.agentBusy()),
      holds: { code: "operation_running", error: /Another operation/ },
      headers: { "x-should-retry": "false" },
    },
  ]),
  { call: `POST ${path}/backups/bk-9/restore`, status: 404, holds: { code: "backup_not_found" } },
  { call: `DELETE ${path}/backups/${backupId}`, status: 200 },
  { call: `DELETE /v1/agents/${agentId}/backups/${backupId}`, status: 200 },
  { call: `DELETE ${path}/backups/${backupId}`, status: 401, key: null },
  {
    call: `DELETE ${path}/backups/${backupId}`,
    status: 404,
    key: adminKey,
    holds: { error: /Agent instance not found/ },
  },
  { call: `DELETE ${path}/backups/bk-9`, status: 404, holds: { code: "backup_not_found" } },
  {
    call: `DELETE ${path}/backups/${backupId}`,
    status: 409,
    given: refuse("agentBackups", "remove")(agents.agentBusy()),
    holds: { code: "operation_running" },
  },
];

describe("agent instances", () => {
  it.each(rows.map((row) => [`${row.call} -> ${row.status}`, row] as const))("%s", async (_, row) => {
    const { holds, ...rest } = row;
    const { error, ...plain } = (holds ?? {}) as { error?: RegExp };
    await check({ ...rest, ...(holds ? { holds: plain } : {}) });
    if (error) expect((await answerTo(row)).json().error).toMatch(error);
  });

  it("show every key of a backup as the interface names them", async () => {
    const answer = await answerTo({ call: `GET ${path}/backups`, status: 200 });
    expect(answer.json()).toEqual([
      { snapshot_name: backupId, size_in_gb: 12, state: "ready", created_at_unix: 1_786_000_000, fail_reason: null },
    ]);
  });
});
