// Rows of agent instances as the features read them.
import { sql } from "kysely";
import type { DeploymentId, HostId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { AgentInstance } from "../../agent-instances/store.ts";
import type { DesiredAgentInstance } from "../../deployments/store.ts";
import type { Db, Trx } from "../core/schema.ts";
import { asDeployment, selectDeployments } from "./deployment-rows.ts";

/** Selects agent instances with their deployments and the address of the host of their volume. */
export function selectAgents(db: Db) {
  return (
    selectDeployments(db)
      .innerJoin("agentInstance as a", "a.deployId", "d.deployId")
      .select([
        "a.agentType",
        "a.planId",
        "a.version as typeVersion",
        "a.dashboardPort",
        "a.startedAt",
        "a.wasStopped",
        "a.operation",
        "a.lastBackupAt",
        "a.lastFault",
      ])
      // The current price: the catalogue may have changed since the instance was created.
      .select(
        sql<bigint>`coalesce((select p.hour_rate from price p where p.kind = 'container' and p.subject = d.price_subject
        and p.effective_from <= now() order by p.effective_from desc, p.price_version desc limit 1), a.hour_rate)`.as(
          "hourRate",
        ),
      )
      .select(
        sql<string | null>`(select h.advertise from host h where h.host_id = d.weights ->> 'host')`.as("advertise"),
      )
  );
}

type AgentRow = Awaited<ReturnType<ReturnType<typeof selectAgents>["executeTakeFirstOrThrow"]>>;

export function asAgentInstance(row: AgentRow): AgentInstance {
  const deployment = asDeployment(row);
  return {
    deployment,
    type: row.agentType,
    plan: row.planId,
    version: row.typeVersion,
    dashboardPort: row.dashboardPort,
    hourRate: nano(row.hourRate),
    startedAtMs: row.startedAt.getTime(),
    wasStopped: row.wasStopped,
    operation: row.operation,
    lastBackupAtMs: row.lastBackupAt?.getTime() ?? null,
    lastFault: row.lastFault,
    host: (deployment.weights.host ?? null) as HostId | null,
    address: row.advertise === null ? null : (URL.parse(row.advertise)?.hostname ?? null),
  };
}

/** Parts of the agent instances among these deployments that their hosts need. */
export async function agentRows(
  trx: Trx,
  ids: readonly DeploymentId[],
): Promise<ReadonlyMap<DeploymentId, DesiredAgentInstance>> {
  if (ids.length === 0) return new Map();
  const rows = await trx
    .selectFrom("agentInstance")
    .select(["deployId", "image", "port", "volumePath", "vcpu as cpus"])
    .select([
      sql<number>`coalesce(dashboard_port, 0)`.as("dashboardPort"),
      sql<number>`ram_bytes::float8`.as("memoryBytes"),
    ])
    .where("deployId", "in", [...ids])
    .execute();
  return new Map(rows.map(({ deployId, ...parts }) => [deployId, parts]));
}
