import type { Kysely } from "kysely";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { DesiredRows } from "../deployments/store.ts";
import { adaptersOf } from "./adapter-rows.ts";
import { agentRows } from "./agent-rows.ts";
import { asDeployment, asInstance, selectDeployments } from "./deployment-rows.ts";
import { readSpecs } from "./deployment-specs.ts";
import { nodeWeightsOf } from "./node-weights-store.ts";
import type { Database } from "./schema.ts";
import { endedOnes } from "./unknown-instances.ts";

/** The whole set of one host, read in one snapshot: its generation and its rows belong together. */
export function desiredRows(db: Kysely<Database>, hostId: HostId): Promise<DesiredRows | undefined> {
  return db
    .transaction()
    .setIsolationLevel("repeatable read")
    .setAccessMode("read only")
    .execute(async (trx) => {
      const host = await trx
        .selectFrom("host")
        .select(["node_epoch", "generation"])
        .where("host_id", "=", hostId)
        .executeTakeFirst();
      if (!host) return undefined;
      const rows = await trx
        .selectFrom("instance")
        .selectAll()
        .where("host_id", "=", hostId)
        .orderBy("instance_id")
        .execute();
      const emptying = await trx
        .selectFrom("host_operation")
        .select("deadline_at")
        .where("host_id", "=", hostId)
        .where("kind", "=", "drain")
        .executeTakeFirst();
      const dead = rows.filter((row) => row.tombstoned_at !== null);
      const goesOn = new Set(emptying ? await servingOf(trx, dead) : []);
      const again = await endedOnes(trx, hostId).orderBy("instance_id").execute();
      const live = rows.filter((row) => row.tombstoned_at === null);
      const ids = [...new Set(live.map((row) => row.deploy_id))];
      const deployments = ids.length > 0 ? await selectDeployments(trx).where("d.deploy_id", "in", ids).execute() : [];
      const specs = await readSpecs(trx, live);
      const agents = await agentRows(trx, ids);
      const adapters = await adaptersOf(trx, ids);
      const byId = new Map(deployments.map((row) => [row.deploy_id as DeploymentId, row]));
      return {
        nodeEpoch: host.node_epoch,
        prefetch: await nodeWeightsOf(trx, hostId),
        generation: host.generation,
        emptiedByMs: emptying?.deadline_at?.getTime() ?? 0,
        tombstones: [...dead, ...again].map((row) => row.instance_id as InstanceId),
        moved: dead.filter((row) => goesOn.has(row.deploy_id)).map((row) => row.instance_id as InstanceId),
        instances: live.flatMap((row) => {
          const deployment = byId.get(row.deploy_id as DeploymentId);
          if (!deployment) return [];
          const known = asDeployment(deployment);
          // During a rollout the instances of one deployment run different things.
          const record = { ...known, ...specs.get(`${row.deploy_id}/${row.spec}`) };
          return [
            {
              instance: asInstance(row),
              deployment: record,
              standardArgs: known.standardArgs ?? {},
              weights: record.weights,
              weightsToken: deployment.weights_token,
              agentInstance: agents.get(record.id),
              adapters: adapters.get(record.id) ?? [],
            },
          ];
        }),
      };
    });
}

const goingOn = ["initializing", "downloading", "deploying", "deployed", "updating"] as const;

/** The deployments of these instances that go on elsewhere. */
async function servingOf(
  trx: Kysely<Database>,
  instances: readonly { readonly deploy_id: string }[],
): Promise<string[]> {
  if (instances.length === 0) return [];
  const rows = await trx
    .selectFrom("deployment")
    .select("deploy_id")
    .where("deploy_id", "in", [...new Set(instances.map((row) => row.deploy_id))])
    .where("status", "in", goingOn)
    .execute();
  return rows.map((row) => row.deploy_id);
}
