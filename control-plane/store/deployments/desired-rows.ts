import type { Kysely } from "kysely";
import type { DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { DesiredRows } from "../../deployments/store.ts";
import type { Database } from "../core/schema.ts";
import { nodeWeightsOf } from "../fleet/node-weights-store.ts";
import { endedOnes } from "../fleet/unknown-instances.ts";
import { adaptersOf } from "./adapter-rows.ts";
import { agentRows } from "./agent-rows.ts";
import { asDeployment, asInstance, selectDeployments } from "./deployment-rows.ts";
import { readSpecs } from "./deployment-specs.ts";

/** The whole set of one host, read in one snapshot: its generation and its rows belong together. */
export function desiredRows(db: Kysely<Database>, hostId: HostId): Promise<DesiredRows | undefined> {
  return db
    .transaction()
    .setIsolationLevel("repeatable read")
    .setAccessMode("read only")
    .execute(async (trx) => {
      const host = await trx
        .selectFrom("host")
        .select(["nodeEpoch", "generation"])
        .where("hostId", "=", hostId)
        .executeTakeFirst();
      if (!host) return undefined;
      const rows = await trx
        .selectFrom("instance")
        .selectAll()
        .where("hostId", "=", hostId)
        .orderBy("instanceId")
        .execute();
      const emptying = await trx
        .selectFrom("hostOperation")
        .select("deadlineAt")
        .where("hostId", "=", hostId)
        .where("kind", "=", "drain")
        .executeTakeFirst();
      const dead = rows.filter((row) => row.tombstonedAt !== null);
      const goesOn = new Set(emptying ? await servingOf(trx, dead) : []);
      const again = await endedOnes(trx, hostId).orderBy("instanceId").execute();
      const live = rows.filter((row) => row.tombstonedAt === null);
      const ids = [...new Set(live.map((row) => row.deployId))];
      const deployments = ids.length > 0 ? await selectDeployments(trx).where("d.deployId", "in", ids).execute() : [];
      const specs = await readSpecs(trx, live);
      const agents = await agentRows(trx, ids);
      const adapters = await adaptersOf(trx, ids);
      const byId = new Map(deployments.map((row) => [row.deployId as DeploymentId, row]));
      return {
        nodeEpoch: host.nodeEpoch,
        prefetch: await nodeWeightsOf(trx, hostId),
        generation: host.generation,
        emptiedByMs: emptying?.deadlineAt?.getTime() ?? 0,
        tombstones: [...dead, ...again].map((row) => row.instanceId as InstanceId),
        moved: dead.filter((row) => goesOn.has(row.deployId)).map((row) => row.instanceId as InstanceId),
        instances: live.flatMap((row) => {
          const deployment = byId.get(row.deployId as DeploymentId);
          if (!deployment) return [];
          const known = asDeployment(deployment);
          // During a rollout the instances of one deployment run different things.
          const record = { ...known, ...specs.get(`${row.deployId}/${row.spec}`) };
          return [
            {
              instance: asInstance(row),
              deployment: record,
              standardArgs: known.standardArgs ?? {},
              weights: record.weights,
              weightsToken: deployment.weightsToken,
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
  instances: readonly { readonly deployId: string }[],
): Promise<string[]> {
  if (instances.length === 0) return [];
  const rows = await trx
    .selectFrom("deployment")
    .select("deployId")
    .where("deployId", "in", [...new Set(instances.map((row) => row.deployId))])
    .where("status", "in", goingOn)
    .execute();
  return rows.map((row) => row.deployId);
}
