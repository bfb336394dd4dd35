import { Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import { toUsd } from "../../../proto/money.ts";
import { unixSeconds, unixSecondsOrNull } from "../../../proto/unix-seconds.ts";
import { stateOf } from "../../agent-instances/agent-instances.ts";
import type { AgentInstance, AgentType, Backup } from "../../agent-instances/store.ts";
import { actOf, actorIdOf } from "../core/act-of.ts";
import type { Endpoints } from "../core/endpoint.ts";
import { nullable } from "../inference/sampling-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";

const name = Type.String({ minLength: 1, maxLength: 64, pattern: "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" });
const seconds = Type.Integer({ description: "Unix seconds" });
const secondsOrNull = Type.Union([seconds, Type.Null()]);

const AgentRequest = Type.Object({
  name,
  agent_type_id: Type.String({ minLength: 1, maxLength: 64, description: "As GET /v1/agent/catalog lists it" }),
  plan_id: Type.Optional(Type.String({ minLength: 1, maxLength: 64, default: "standard" })),
});

const AgentRename = Type.Object({ name }, { additionalProperties: false });

const AgentId = Type.Object({ instance_id: Type.String() });

const AgentRecord = Type.Object({
  id: Type.String(),
  name: Type.String(),
  state: Type.String({ description: "creating, starting, running, stopping, stopped, failed, deleted" }),
  start_ts: seconds,
  state_ts: seconds,
  stop_ts: secondsOrNull,
  price_per_hour: Type.Number({ description: "USD" }),
  region: Type.String(),
  last_backup_ts: secondsOrNull,
  ssh_port: Type.Union([Type.Integer(), Type.Null()], { description: "Always null: agent instances have no SSH" }),
  fail_reason: nullable.string(),
  public_ip: nullable.string(),
  version: Type.String(),
  agent_type: Type.String(),
  ssh_user: nullable.string({ description: "Always null" }),
  plan_id: Type.String(),
  operation: Type.Union([Type.String(), Type.Null()], {
    description: "backup, restore or try_restore; null: none is running",
  }),
});

const AgentCatalogAnswer = Type.Record(
  Type.String(),
  Type.Object({
    pretty_name: Type.String(),
    version: Type.String(),
    has_dashboard: Type.Boolean(),
    self_service_update_command: nullable.string(),
    plans: Type.Array(
      Type.Object({
        id: Type.String(),
        vcpu: Type.Number(),
        ram_gb: Type.Number(),
        price_per_hour: Type.Number({ description: "USD" }),
        monthly_egress_gb: Type.Number(),
      }),
    ),
  }),
);

const BackupRecord = Type.Object({
  snapshot_name: Type.String(),
  size_in_gb: Type.Number(),
  state: Type.String({ description: "creating, ready, failed" }),
  created_at_unix: seconds,
  fail_reason: nullable.string(),
});

const AgentLaunch = Type.Object({ dashboard_url: Type.String({ description: "Valid for one visit" }) });

const BackupStarted = Type.Object({ snapshot_name: Type.String() });

const base = "/v1/agent";
const inactive = new Set(["failed", "deleted"]);

export function addAgentInstanceRoutes(
  endpoints: Endpoints,
  { agentInstances, agentBackups }: DeploymentFeatures,
): void {
  const own = endpoints.with({ tag: "agents", access: "key" });

  own.get(`${base}/catalog`, {
    isOpenToOperators: true,
    summary: "List types of agent instances and their plans",
    isFromMemory: true,
    answer: AgentCatalogAnswer,
    handler: () => renderAgentCatalog(agentInstances.catalog()),
  });

  own.post(base, {
    summary: "Create an agent instance",
    idempotent: true,
    isPaid: true,
    body: AgentRequest,
    answer: AgentId,
    refusals: [400, 402, 409, 423, 429],
    async handler({ caller, body, reply }) {
      const request = { name: body.name, type: body.agent_type_id, plan: body.plan_id ?? "standard" };
      return { instance_id: await agentInstances.create(caller, request, actOf(caller, reply)) };
    },
  });

  own.get(base, {
    isOpenToOperators: true,
    summary: "List agent instances of the account",
    query: Type.Object({
      state: Type.Optional(
        Type.Unsafe<"active" | "inactive" | "all">({
          type: "string",
          enum: ["active", "inactive", "all"],
          default: "active",
        }),
      ),
    }),
    answer: Type.Array(AgentRecord),
    async handler({ caller, query }) {
      const wanted = query.state ?? "active";
      const all = await agentInstances.list(caller);
      return all
        .filter((one) => wanted === "all" || inactive.has(stateOf(one)) === (wanted === "inactive"))
        .map(renderAgent);
    },
  });

  own.get(`${base}/:instance_id`, {
    isOpenToOperators: true,
    summary: "Get an agent instance",
    answer: AgentRecord,
    refusals: [404],
    handler: async ({ caller, params }) =>
      renderAgent(await agentInstances.get(caller, params.instance_id as DeploymentId)),
  });
  own.patch(`${base}/:instance_id`, {
    summary: "Rename an agent instance",
    body: AgentRename,
    answer: AgentRecord,
    refusals: [404, 409],
    handler: async ({ caller, params, body }) =>
      renderAgent(await agentInstances.rename(caller, params.instance_id as DeploymentId, body.name)),
  });

  const verbs = [
    {
      method: "delete",
      path: "",
      summary: "Delete an agent instance with its volume and backups",
      verb: agentInstances.remove,
    },
    { method: "post", path: "/stop", summary: "Stop the container; the volume stays", verb: agentInstances.stop },
    {
      method: "post",
      path: "/start",
      summary: "Start a stopped agent instance",
      verb: agentInstances.start,
      more: [402, 423],
    },
    { method: "post", path: "/update", summary: "Update to the catalogue's version", verb: agentInstances.update },
  ] as const;
  for (const { method, path, summary, verb, ...rest } of verbs)
    own[method](`${base}/:instance_id${path}`, {
      summary,
      refusals: [404, 409, ...("more" in rest ? rest.more : [])],
      handler: ({ caller, params, reply }) =>
        verb.call(agentInstances, caller, params.instance_id as DeploymentId, actOf(caller, reply)),
    });

  own.post(`${base}/:instance_id/launch_token`, {
    summary: "Create an address that opens the dashboard once",
    answer: AgentLaunch,
    refusals: [404, 409, 423],
    async handler({ caller, params, reply: { request } }) {
      const login = request.state?.session?.lookup;
      const who = { member: caller.member?.id, by: actorIdOf(caller) };
      const by = { ip: request.ip, port: request.socket.localPort, key: caller.key || undefined, login, ...who };
      return { dashboard_url: await agentInstances.launchToken(caller, params.instance_id as DeploymentId, by) };
    },
  });
  addAgentBackupRoutes(endpoints, agentBackups);
}

function addAgentBackupRoutes(endpoints: Endpoints, agentBackups: DeploymentFeatures["agentBackups"]): void {
  const own = endpoints.with({ tag: "agents", access: "key" });

  own.get(`${base}/:instance_id/backups`, {
    isOpenToOperators: true,
    summary: "List backups, newest first",
    answer: Type.Array(BackupRecord),
    refusals: [404],
    handler: async ({ caller, params }) =>
      (await agentBackups.list(caller, params.instance_id as DeploymentId)).map(renderBackup),
  });
  own.post(`${base}/:instance_id/backup`, {
    summary: "Start a backup of the volume",
    idempotent: true,
    answer: BackupStarted,
    refusals: [404, 409],
    handler: async ({ caller, params, reply }) => ({
      snapshot_name: await agentBackups.backup(caller, params.instance_id as DeploymentId, actOf(caller, reply)),
    }),
  });
  own.delete(`${base}/:instance_id/backups/:backup_id`, {
    summary: "Delete a backup",
    refusals: [404, 409],
    handler: ({ caller, params, reply }) =>
      agentBackups.remove(caller, params.instance_id as DeploymentId, params.backup_id, actOf(caller, reply)),
  });
  const ofBackup = [
    { path: "restore", summary: "Start to replace the volume by a backup", verb: agentBackups.restore },
    { path: "verify", summary: "Start to verify that a backup can be restored", verb: agentBackups.tryRestore },
  ] as const;
  for (const { path, summary, verb } of ofBackup)
    own.post(`${base}/:instance_id/backups/:backup_id/${path}`, {
      summary,
      idempotent: true,
      refusals: [404, 409],
      handler: ({ caller, params, reply }) =>
        verb.call(agentBackups, caller, params.instance_id as DeploymentId, params.backup_id, actOf(caller, reply)),
    });
}

const gb = 1e9;
const gib = 1024 ** 3;
/** Renders an agent instance with every key of the interface. */
export function renderAgent(one: AgentInstance) {
  const { deployment } = one;
  const state = stateOf(one);
  const hasEnded = state === "stopped" || state === "failed" || state === "deleted";
  return {
    id: deployment.id,
    name: deployment.modelName,
    state,
    start_ts: unixSeconds(one.startedAtMs),
    state_ts: unixSeconds(deployment.updatedAtMs),
    stop_ts: hasEnded ? unixSeconds(deployment.updatedAtMs) : null,
    price_per_hour: Number(toUsd(one.hourRate)),
    region: "",
    last_backup_ts: unixSecondsOrNull(one.lastBackupAtMs),
    ssh_port: null,
    fail_reason: deployment.failReason || whyItWaits(one) || one.lastFault || null,
    public_ip: state === "running" ? one.address : null,
    version: one.version,
    agent_type: one.type,
    ssh_user: null,
    plan_id: one.plan,
    operation: one.operation,
  };
}

/** The volume is on one host: while that host has no capacity, the instance waits and its owner needs the reason. */
function whyItWaits({ deployment: { status, pendingReasons } }: AgentInstance): string {
  if (status !== "initializing" || pendingReasons.length === 0) return "";
  return `It waits for a host: ${pendingReasons.map(({ host, why }) => (host === "" ? why : `${host}: ${why}`)).join("; ")}.`;
}

function renderAgentCatalog(types: readonly AgentType[]) {
  return Object.fromEntries(
    types.map((type) => [
      type.id,
      {
        pretty_name: type.prettyName,
        version: type.version,
        has_dashboard: type.dashboardPort !== null,
        self_service_update_command: type.updateCommand,
        plans: type.plans.map((plan) => ({
          id: plan.id,
          vcpu: plan.vcpu,
          ram_gb: plan.ramBytes / gib,
          price_per_hour: Number(toUsd(plan.hourRate)),
          monthly_egress_gb: plan.monthlyEgressGb,
        })),
      },
    ]),
  );
}

function renderBackup(one: Backup) {
  return {
    snapshot_name: one.id,
    size_in_gb: one.sizeBytes / gb,
    state: one.state,
    created_at_unix: unixSeconds(one.createdAtMs),
    fail_reason: one.fault || null,
  };
}
