import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import * as agents from "../../control-plane/agent-instances/errors.ts";
import { agentId, backupId } from "../fakes/agent-instance-ports.ts";
import { makeAgentInstance } from "../fakes/agent-instance-rows.ts";
import { adminKey } from "../fakes/ports.ts";
import { answerTo, check, type Row, refuse } from "./status-row.ts";
import {
  checkStatuses,
  createCustomer,
  installation,
  type StatusRow,
  suspended,
  type Values,
  write,
} from "./status-table.ts";

const request = { name: "my-agent", agent_type_id: "workspace", plan_id: "standard" };
// These refusals need a host with capacity, or one without; the installation of the contract tests has no hosts.
const create = refuse("agentInstances", "create");
const path = `/v1/agent/${agentId}`;

const posts = ["stop", "start", "update"] as const;
const verbs = ["backup", `backups/${backupId}/restore`, `backups/${backupId}/verify`];

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
  { call: "POST /v1/agent", status: 400, body: "{" },
  { call: "POST /v1/agent", status: 401, body: request, key: null },
  { call: "POST /v1/agent", status: 409, body: request, given: create(agents.agentNameTaken("x")) },
  { call: "POST /v1/agent", status: 422, body: { ...request, name: "" } },
  { call: "POST /v1/agent", status: 422, body: { ...request, name: "x".repeat(65) } },
  { call: "POST /v1/agent", status: 422, body: { name: "x" }, holds: { detail: [{ type: "missing" }] } },
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
  { call: `DELETE ${path}`, status: 200 },
  { call: `DELETE ${path}`, status: 401, key: null },
  { call: `DELETE ${path}`, status: 404, key: adminKey },
  ...posts.flatMap((verb): Row[] => [
    { call: `POST ${path}/${verb}`, status: 200 },
    { call: `POST /v1/agents/${agentId}/${verb}`, status: 200 },
    { call: `POST ${path}/${verb}`, status: 401, key: null },
    { call: `POST ${path}/${verb}`, status: 404, key: adminKey },
  ]),
  { call: `POST ${path}/launch_token`, status: 200, holds: { dashboard_url: "https://agent-1.example/once" } },
  { call: `POST /v1/agents/${agentId}/launch_token`, status: 200 },
  { call: `POST ${path}/launch_token`, status: 401, key: null },
  { call: `POST ${path}/launch_token`, status: 404, key: adminKey },
  { call: `GET ${path}/terminal`, status: 200, holds: { available: true } },
  { call: `GET ${path}/terminal`, status: 404, key: adminKey, holds: { code: "agent_not_found" } },
  { call: `POST ${path}/terminal`, status: 200, holds: { path: "/v1/terminal" } },
  { call: `POST ${path}/terminal`, status: 401, key: null },
  { call: `POST ${path}/terminal`, status: 404, key: adminKey },
  { call: `GET ${path}/backups`, status: 200 },
  { call: `GET ${path}/backups`, status: 401, key: null },
  { call: `GET ${path}/backups`, status: 404, key: adminKey },
  ...verbs.flatMap((verb): Row[] => [
    { call: `POST ${path}/${verb}`, status: 200 },
    { call: `POST /v1/agents/${agentId}/${verb}`, status: 200 },
    { call: `POST ${path}/${verb}`, status: 401, key: null },
    { call: `POST ${path}/${verb}`, status: 404, key: adminKey, holds: { error: /Agent instance not found/ } },
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
];

describe("agent instances", () => {
  it.each(rows.map((row) => [`${row.call} -> ${row.status}`, row] as const))("%s", async (_, row) => {
    const { holds, ...rest } = row;
    const { error, ...plain } = (holds ?? {}) as { error?: RegExp };
    await check({ ...rest, ...(holds ? { holds: plain } : {}) });
    if (error) expect((await answerTo(row)).json().error).toMatch(error);
  });

  it("shows every key of a backup", async () => {
    const answer = await answerTo({ call: `GET ${path}/backups`, status: 200 });
    expect(answer.json()).toEqual([
      { snapshot_name: backupId, size_in_gb: 12, state: "ready", created_at_unix: 1_786_000_000, fail_reason: null },
    ]);
  });
});

const one = "/v1/agent/{agent}";
const noRetry = { "x-should-retry": "false" };

/** An account with an agent instance that waits for a host, and one backup of it. */
async function instance(customer = createCustomer()): Promise<Values> {
  const { uid, key } = await customer;
  const { id, backup } = await makeAgentInstance(installation.databaseUrl, uid, randomBytes(6).toString("hex"));
  return { uid, key, agent: id, backup };
}

async function stopped(customer?: ReturnType<typeof createCustomer>): Promise<Values> {
  const values = await instance(customer);
  await write("update deployment set status = 'stopped', revision = revision + 1 where deploy_id = $1", [
    values["agent"],
  ]);
  return values;
}

/** A host works on its volume. */
async function busy(): Promise<Values> {
  const values = await instance();
  // The control plane ends an operation whose command does not exist.
  await write(
    `with command as (
      insert into host_command (command_id, host_id, kind, arguments, deadline_at)
        values ($1::text || '-backup', 'host', 'volume.backup', '{}', now() + interval '1 hour') returning command_id)
    update agent_instance set operation = 'backup', operation_command = command_id, operation_backup = $2, operation_at = now()
    from command where deploy_id = $1`,
    [values["agent"], values["backup"]],
  );
  return values;
}

/** Less than the first five minutes cost. */
const poor = () => createCustomer({ creditUsd: 0.001 });

const productRows: readonly StatusRow[] = [
  {
    call: "POST /v1/agent",
    status: 400,
    body: { ...request, agent_type_id: "unknown" },
    holds: { code: "agent_type_unknown" },
  },
  {
    call: "POST /v1/agent",
    status: 402,
    given: async () => ({ ...(await poor()) }),
    body: request,
    headers: noRetry,
    // The amount depends on discounts that other files give.
    holds: { error: expect.stringMatching(/ cost USD 0\.00[1-5], /) },
  },
  {
    call: "POST /v1/agent",
    status: 423,
    given: () => suspended(instance()),
    body: request,
    holds: { code: "account_suspended" },
  },
  {
    call: "POST /v1/agent",
    status: 503,
    body: request,
    headers: { "retry-after": "60" },
    holds: { code: "no_capacity", error: expect.stringMatching(/no host is connected/) },
  },
  {
    call: `PATCH ${one}`,
    status: 409,
    given: async () => {
      const values = await instance();
      const mark = randomBytes(6).toString("hex");
      await makeAgentInstance(installation.databaseUrl, values["uid"] as string, mark);
      return { ...values, taken: `ada's agent ${mark}` };
    },
    body: { name: "{taken}" },
    holds: { code: "name_taken" },
  },
  { call: `DELETE ${one}`, status: 409, given: busy, holds: { code: "operation_running" } },
  { call: `POST ${one}/stop`, status: 409, given: () => stopped(), holds: { code: "wrong_state" }, headers: noRetry },
  ...["start", "update"].map(
    (verb): StatusRow => ({
      call: `POST ${one}/${verb}`,
      status: 409,
      given: () => instance(),
      holds: { code: "wrong_state" },
      headers: noRetry,
    }),
  ),
  { call: `POST ${one}/start`, status: 402, given: () => stopped(poor()), headers: noRetry },
  { call: `POST ${one}/start`, status: 423, given: () => suspended(stopped()), holds: { code: "account_suspended" } },
  {
    call: `POST ${one}/launch_token`,
    status: 409,
    given: () => instance(),
    holds: { code: "no_dashboard" },
    headers: noRetry,
  },
  {
    call: `POST ${one}/launch_token`,
    status: 423,
    given: () => suspended(instance()),
    holds: { code: "account_suspended" },
  },
  {
    call: `GET ${one}/terminal`,
    status: 200,
    given: () => instance(),
    holds: { available: false, reason: "The agent instance must be running to open a terminal; it is initializing." },
  },
  {
    call: `POST ${one}/terminal`,
    status: 409,
    given: () => instance(),
    holds: { code: "wrong_state" },
    headers: noRetry,
  },
  {
    call: `POST ${one}/terminal`,
    status: 423,
    given: () => suspended(instance()),
    holds: { code: "account_suspended" },
  },
  ...["POST", "DELETE"].flatMap((method) =>
    (method === "POST"
      ? ["/backup", "/backups/{backup}/restore", "/backups/{backup}/verify"]
      : ["/backups/{backup}"]
    ).map(
      (rest): StatusRow => ({
        call: `${method as "POST"} ${one}${rest}`,
        status: 409,
        given: busy,
        holds: { code: "operation_running", error: expect.stringMatching(/Another operation/) },
        headers: noRetry,
      }),
    ),
  ),
];

describe("refused calls of agent instances", () => {
  checkStatuses(async () => ({ ...(await createCustomer()) }), productRows);
});
