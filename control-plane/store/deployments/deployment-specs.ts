// What a deployment is to run, by number. Rows are never changed: instances of an older one keep what they were started with.
import { isDeepStrictEqual } from "node:util";
import { type Kysely, sql, type Transaction } from "kysely";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { MemoryClaim, StandardArgs } from "../../deployments/store.ts";
import type { Database } from "../core/schema.ts";

export interface Spec {
  readonly extraArgs: readonly string[];
  readonly standardArgs?: StandardArgs;
  readonly contextLength: number;
  /** Absent: nobody knew. */
  readonly memory?: MemoryClaim;
}

export async function insertSpec(
  trx: Transaction<Database>,
  id: DeploymentId,
  spec: number,
  next: Spec,
): Promise<void> {
  await trx
    .insertInto("deploymentSpec")
    .values({
      ...{ deployId: id, spec, ...columnsOf(next) },
      memoryBytes: next.memory === undefined ? null : BigInt(next.memory.memoryBytes),
      memoryBound: next.memory?.isMemoryBound ?? null,
    })
    .execute();
}

export const columnsOf = ({ extraArgs, standardArgs, contextLength }: Spec) => ({
  extraArgs: [...extraArgs],
  standardArgs: JSON.stringify(standardArgs ?? {}),
  contextLength: contextLength,
});

/** Of the deployment's row. `spec`: which the claim is of. */
export const memoryColumnsOf = <Spec>({ memoryBytes, isMemoryBound }: MemoryClaim, spec: Spec) => ({
  memoryBytes: BigInt(memoryBytes),
  memoryBound: isMemoryBound,
  memorySpec: spec,
});

/** The next number, for what replaces it. */
export async function addSpec(trx: Transaction<Database>, id: DeploymentId, next: Spec): Promise<number> {
  const { last } = await trx
    .selectFrom("deploymentSpec")
    .select((eb) => eb.fn.max("spec").as("last"))
    .where("deployId", "=", id)
    .executeTakeFirstOrThrow();
  await insertSpec(trx, id, last + 1, next);
  return last + 1;
}

/** The number of what serves, where an update is under way and `next` is what served before it; undefined: it is something else. */
export async function servingAs(
  trx: Transaction<Database>,
  id: DeploymentId,
  ifRevision: bigint,
  next: Spec,
): Promise<number | undefined> {
  const now = await trx
    .selectFrom("deployment")
    .select(["spec", "servingSpec"])
    .where("deployId", "=", id)
    .where("revision", "=", ifRevision)
    .executeTakeFirst();
  if (!now || now.servingSpec === now.spec) return undefined;
  const [before] = (await readSpecs(trx, [{ deployId: id, spec: now.servingSpec }])).values();
  return before && isDeepStrictEqual(runOf(before), runOf(next)) ? now.servingSpec : undefined;
}

const runOf = ({ extraArgs, standardArgs = {}, contextLength }: Spec) => ({ extraArgs, standardArgs, contextLength });

/** Names a spec. */
export interface SpecOf {
  readonly deployId: string;
  readonly spec: number;
}

/** These, by `deploy_id/spec`. Earlier ones stay, as many as there were updates: they are not read. */
export async function readSpecs(
  db: Kysely<Database> | Transaction<Database>,
  wanted: readonly SpecOf[],
): Promise<ReadonlyMap<string, Spec>> {
  if (wanted.length === 0) return new Map();
  const ids = wanted.map((one) => one.deployId);
  const specs = wanted.map((one) => one.spec);
  const rows = await db
    .selectFrom("deploymentSpec")
    .selectAll()
    .where(sql<boolean>`(deploy_id, spec) in (select * from unnest(${ids}::text[], ${specs}::integer[]))`)
    .execute();
  return new Map(
    rows.map((row) => [
      `${row.deployId}/${row.spec}`,
      {
        extraArgs: row.extraArgs,
        standardArgs: row.standardArgs,
        contextLength: row.contextLength,
        ...(row.memoryBytes === null
          ? {}
          : { memory: { memoryBytes: Number(row.memoryBytes), isMemoryBound: row.memoryBound ?? false } }),
      },
    ]),
  );
}
