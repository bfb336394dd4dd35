import { Type } from "typebox";
import type { DeploymentId } from "../../../proto/ids.ts";
import { stateOf } from "../../agent-instances/agent-instances.ts";
import type { Endpoints } from "../core/endpoint.ts";
import {
  AgentCatalogAnswer,
  AgentId,
  AgentLaunch,
  AgentRecord,
  AgentRename,
  AgentRequest,
  BackupRecord,
  BackupStarted,
} from "./agent-instances-schemas.ts";
import type { DeploymentFeatures } from "./features.ts";
import { renderAgent, renderAgentCatalog, renderBackup } from "./render-agent-instance.ts";

const base = "/v1/agent";
const inactive = new Set(["failed", "deleted"]);

export function addAgentInstanceRoutes(
  endpoints: Endpoints,
  { agentInstances, agentBackups }: DeploymentFeatures,
): void {
  const own = endpoints.with({ tag: "agents", access: "key" });

  own.get(`${base}/catalog`, {
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
      return { instance_id: await agentInstances.create(caller, request, reply.request.ip) };
    },
  });

  own.get(base, {
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
        verb.call(agentInstances, caller, params.instance_id as DeploymentId, reply.request.ip),
    });

  own.post(`${base}/:instance_id/launch_token`, {
    summary: "Create an address that opens the dashboard once",
    answer: AgentLaunch,
    refusals: [404, 409, 423],
    async handler({ caller, params, reply: { request } }) {
      const login = request.state?.session?.lookup;
      const by = { ip: request.ip, port: request.socket.localPort, key: caller.key || undefined, login };
      return { dashboard_url: await agentInstances.launchToken(caller, params.instance_id as DeploymentId, by) };
    },
  });
  own.get(`${base}/:instance_id/backups`, {
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
      snapshot_name: await agentBackups.backup(caller, params.instance_id as DeploymentId, reply.request.ip),
    }),
  });
  own.delete(`${base}/:instance_id/backups/:backup_id`, {
    summary: "Delete a backup",
    refusals: [404, 409],
    handler: ({ caller, params, reply }) =>
      agentBackups.remove(caller, params.instance_id as DeploymentId, params.backup_id, reply.request.ip),
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
        verb.call(agentBackups, caller, params.instance_id as DeploymentId, params.backup_id, reply.request.ip),
    });
}
