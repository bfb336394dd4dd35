import type { Kysely, Transaction } from "kysely";
import type { GpuCheck, InsertRefusal, NewDeployment } from "../deployments/store.ts";
import { isAdapterName } from "./adapter-rows.ts";
import { writeAudit } from "./audit-rows.ts";
import { announce } from "./change-feed.ts";
import { inTransaction, uniqueViolation } from "./database.ts";
import { columnsOf, insertSpec, memoryColumnsOf } from "./deployment-specs.ts";
import { lockAccount, readGpuUse } from "./limit-rows.ts";
import type { Database } from "./schema.ts";

/** Ends the transaction of a dry run. */
class OnlyLooked extends Error {}

/** Undefined: it is written, or would have been. */
export async function insertUnderLimits(
  db: Kysely<Database>,
  next: NewDeployment,
  check: GpuCheck,
  isDryRun: boolean,
): Promise<InsertRefusal | undefined> {
  try {
    return await inTransaction(db, async (trx) => {
      if (!(await lockAccount(trx, next.account))) return "account_gone";
      if (next.kind === "model" && (await isAdapterName(trx, next.account, next.modelName))) return "name_taken";
      check(await readGpuUse(trx, next.account, next.gpu, undefined));
      await insertDeployment(trx, next);
      if (isDryRun) throw new OnlyLooked();
      await announce(trx, "deployment", next.id);
      return undefined;
    });
  } catch (error) {
    if (error instanceof OnlyLooked) return undefined;
    if (uniqueViolation(error) === "deployment_name") return "name_taken";
    throw error;
  }
}

/** Throws a unique violation of `deployment_name`. */
export async function insertDeployment(trx: Transaction<Database>, next: NewDeployment): Promise<void> {
  const memory = { memoryBytes: next.memoryBytes, isMemoryBound: next.isMemoryBound ?? false };
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
      ...memoryColumnsOf(memory, 1),
      price_subject: next.priceSubject ?? null,
      pending_reasons: "[]",
      target: Math.max(1, next.minInstances),
      inactive_shutdown: next.inactiveShutdown ?? null,
    })
    .execute();
  await insertSpec(trx, next.id, 1, { ...next, memory });
  // Machines of their own, which cost as long as they are there: who took one must be known afterwards.
  if (next.kind === "model") return;
  const { account, ip = "" } = next;
  const after = { name: next.modelName, gpu: next.gpu, num_gpus: next.numGpus, image: next.container?.image ?? null };
  await writeAudit(trx, { actor: account, action: `${next.kind}.create`, subject: next.id, account, ip, after });
}
