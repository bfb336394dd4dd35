import type { DeploymentId, HostId } from "../../../proto/ids.ts";
import type { DesiredRows } from "../../deployments/store.ts";
import type { Db } from "../core/schema.ts";
import { nodeWeightsOf } from "../fleet/node-weights-store.ts";
import { endedOnes } from "../fleet/unknown-instances.ts";
import { adaptersOf } from "./adapter-rows.ts";
import { agentRows } from "./agent-rows.ts";
import { asDeployment, selectDeployments, selectInstances } from "./deployment-rows.ts";
import { readSpecs } from "./deployment-specs.ts";

/** Reads the desired set of one host in one snapshot, so that its generation matches its rows. */
export function desiredRows(db: Db, hostId: HostId): Promise<DesiredRows | undefined> {
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
      const rows = await selectInstances(trx).where("hostId", "=", hostId).orderBy("instanceId").execute();
      const drain = await trx
        .selectFrom("hostOperation")
        .select("deadlineAt")
        .where("hostId", "=", hostId)
        .where("kind", "=", "drain")
        .executeTakeFirst();
      const [live, dead] = [rows.filter((row) => !row.isTombstoned), rows.filter((row) => row.isTombstoned)];
      const continuing = new Set(drain ? await continuingOf(trx, dead) : []);
      const seenAgain = await endedOnes(trx, hostId).orderBy("instanceId").execute();
      const ids = [...new Set(live.map((row) => row.deployId))];
      const deployments = ids.length > 0 ? await selectDeployments(trx).where("d.deployId", "in", ids).execute() : [];
      const specs = await readSpecs(trx, live);
      const agents = await agentRows(trx, ids);
      const adapters = await adaptersOf(trx, ids);
      const byId = new Map(deployments.map((row) => [row.deployId, row]));
      return {
        nodeEpoch: host.nodeEpoch,
        prefetch: await nodeWeightsOf(trx, hostId),
        generation: host.generation,
        emptiedByMs: drain?.deadlineAt?.getTime() ?? 0,
        tombstones: [...dead.map((row) => row.id), ...seenAgain.map((row) => row.instanceId)],
        moved: dead.filter((row) => continuing.has(row.deployId)).map((row) => row.id),
        instances: live.flatMap((instance) => {
          const deployment = byId.get(instance.deployId);
          if (!deployment) return [];
          const known = asDeployment(deployment);
          // During a rollout the instances of one deployment run different specifications.
          const record = { ...known, ...specs.get(`${instance.deployId}/${instance.spec}`) };
          return [
            {
              instance,
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

const continuingStatuses = ["initializing", "downloading", "deploying", "deployed", "updating"] as const;

/** Deployments of these instances that continue elsewhere. */
async function continuingOf(
  trx: Db,
  instances: readonly { readonly deployId: DeploymentId }[],
): Promise<DeploymentId[]> {
  if (instances.length === 0) return [];
  const rows = await trx
    .selectFrom("deployment")
    .select("deployId")
    .where("deployId", "in", [...new Set(instances.map((row) => row.deployId))])
    .where("status", "in", continuingStatuses)
    .execute();
  return rows.map((row) => row.deployId);
}
