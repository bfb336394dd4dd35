import type { GpuCheck, InsertRefusal, NewDeployment } from "../../deployments/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction, uniqueViolation } from "../core/database.ts";
import type { Db, Trx } from "../core/schema.ts";
import { writeAudit } from "../people/audit-rows.ts";
import { lockAccount, readGpuUse } from "../people/limit-rows.ts";
import { isAdapterName } from "./deployment-changes.ts";
import { columnsOf, insertSpec, memoryColumnsOf } from "./deployment-specs.ts";

/** Rolls back the transaction of a dry run. */
class DryRun extends Error {}

/** Undefined: it was written, or would be without `isDryRun`. */
export async function insertUnderLimits(
  db: Db,
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
      if (isDryRun) throw new DryRun();
      await announce(trx, "deployment", next.id);
      return undefined;
    });
  } catch (error) {
    if (error instanceof DryRun) return undefined;
    if (uniqueViolation(error) === "deployment_name") return "name_taken";
    throw error;
  }
}

/** Throws a unique violation of `deployment_name`. */
export async function insertDeployment(trx: Trx, next: NewDeployment): Promise<void> {
  const memory = { memoryBytes: next.memoryBytes, isMemoryBound: next.isMemoryBound ?? false };
  await trx
    .insertInto("deployment")
    .values({
      deployId: next.id,
      accountId: next.account,
      kind: next.kind,
      modelName: next.modelName,
      version: next.version,
      task: next.task,
      type: next.type,
      engine: next.engine,
      status: "initializing",
      gpu: next.gpu,
      numGpus: next.numGpus,
      maxBatchSize: next.maxBatchSize,
      minInstances: next.minInstances,
      maxInstances: next.maxInstances,
      weights: JSON.stringify(next.weights),
      weightsToken: next.weightsToken,
      container: next.container ? JSON.stringify(next.container) : null,
      ...columnsOf(next),
      image: next.image ?? "",
      externalUrl: next.externalUrl,
      ...memoryColumnsOf(memory, 1),
      priceSubject: next.priceSubject ?? null,
      pendingReasons: "[]",
      target: Math.max(1, next.minInstances),
      inactiveShutdown: next.inactiveShutdown ?? null,
    })
    .execute();
  await insertSpec(trx, next.id, 1, { ...next, memory });
  // Rented machines cost money as long as they exist, so the audit log records who created one.
  if (next.kind === "model") return;
  const { account, ip = "" } = next;
  const after = { name: next.modelName, gpu: next.gpu, num_gpus: next.numGpus, image: next.container?.image ?? null };
  await writeAudit(trx, { actor: account, action: `${next.kind}.create`, subject: next.id, account, ip, after });
}
