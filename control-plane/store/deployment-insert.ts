import type { Transaction } from "kysely";
import type { NewDeployment } from "../deployments/store.ts";
import { writeAudit } from "./audit-rows.ts";
import { columnsOf, insertSpec } from "./deployment-specs.ts";
import type { Database } from "./schema.ts";

/** Throws a unique violation of `deployment_name`. */
export async function insertDeployment(trx: Transaction<Database>, next: NewDeployment): Promise<void> {
  await trx
    .insertInto("deployment")
    .values({
      deploy_id: next.id,
      account_id: next.account,
      kind: next.kind,
      model_name: next.modelName,
      version: next.version,
      task: next.task,
      type: next.type,
      engine: next.engine,
      status: "initializing",
      gpu: next.gpu,
      num_gpus: next.numGpus,
      max_batch_size: next.maxBatchSize,
      min_instances: next.minInstances,
      max_instances: next.maxInstances,
      weights: JSON.stringify(next.weights),
      weights_token: next.weightsToken,
      container: next.container ? JSON.stringify(next.container) : null,
      ...columnsOf(next),
      image: next.image ?? "",
      external_url: next.externalUrl,
      memory_bytes: BigInt(next.memoryBytes),
      memory_bound: next.isMemoryBound ?? false,
      price_subject: next.priceSubject ?? null,
      pending_reasons: "[]",
      target: Math.max(1, next.minInstances),
      inactive_shutdown: next.inactiveShutdown ?? null,
    })
    .execute();
  await insertSpec(trx, next.id, 1, next);
  // Machines of their own, which cost as long as they are there: who took one must be known afterwards.
  if (next.kind === "model") return;
  const { account, ip = "" } = next;
  const after = { name: next.modelName, gpu: next.gpu, num_gpus: next.numGpus, image: next.container?.image ?? null };
  await writeAudit(trx, { actor: account, action: `${next.kind}.create`, subject: next.id, account, ip, after });
}
