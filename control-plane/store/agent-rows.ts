// Rows of agent instances to the records of the feature.
import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { DeploymentId, HostId } from "../../proto/ids.ts";
import { nano } from "../../proto/money.ts";
import type { AgentInstance, Operation } from "../agent-instances/store.ts";
import type { DesiredAgentInstance } from "../deployments/store.ts";
import { asDeployment, selectDeployments } from "./deployment-rows.ts";
import type { Database } from "./schema.ts";

/** With their deployments, and the address of the host that has their volume. */
export function selectAgents(db: Kysely<Database>) {
  return (
    selectDeployments(db)
      .innerJoin("agent_instance as a", "a.deploy_id", "d.deploy_id")
      .select([
        "a.agent_type",
        "a.plan_id",
        "a.version as type_version",
        "a.dashboard_port",
        "a.started_at",
        "a.was_stopped",
        "a.operation",
        "a.last_backup_at",
        "a.last_fault",
      ])
      // What is billed now: the catalogue may have changed since it was made.
      .select(
        sql<bigint>`coalesce((select p.hour_rate from price p where p.kind = 'container' and p.subject = d.price_subject
        and p.effective_from <= now() order by p.effective_from desc, p.price_version desc limit 1), a.hour_rate)`.as(
          "hour_rate",
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
    type: row.agent_type,
    plan: row.plan_id,
    version: row.type_version,
    dashboardPort: row.dashboard_port,
    hourRate: nano(row.hour_rate),
    startedAtMs: row.started_at.getTime(),
    wasStopped: row.was_stopped,
    operation: row.operation as Operation | null,
    lastBackupAtMs: row.last_backup_at?.getTime() ?? null,
    lastFault: row.last_fault,
    host: (deployment.weights.host ?? null) as HostId | null,
    address: row.advertise === null ? null : (URL.parse(row.advertise)?.hostname ?? null),
  };
}

/** What their hosts must know of those among the deployments. */
export async function agentRows(
  trx: Transaction<Database>,
  ids: readonly string[],
): Promise<ReadonlyMap<DeploymentId, DesiredAgentInstance>> {
  if (ids.length === 0) return new Map();
  const rows = await trx
    .selectFrom("agent_instance")
    .selectAll()
    .where("deploy_id", "in", [...ids])
    .execute();
  return new Map(rows.map((row) => [row.deploy_id as DeploymentId, asDesired(row)]));
}

const asDesired = (row: Selectable<Database["agent_instance"]>): DesiredAgentInstance => ({
  image: row.image,
  port: row.port,
  dashboardPort: row.dashboard_port ?? 0,
  volumePath: row.volume_path,
  cpus: row.vcpu,
  memoryBytes: Number(row.ram_bytes),
});
