// What a deployment is to run, by number. Rows are never changed: instances of an older one keep what they were started with.
import { isDeepStrictEqual } from "node:util";
import { type Kysely, sql, type Transaction } from "kysely";
import type { DeploymentId } from "../../proto/ids.ts";
import type { MemoryClaim, StandardArgs } from "../deployments/store.ts";
import type { Database } from "./schema.ts";

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
    .insertInto("deployment_spec")
    .values({
      ...{ deploy_id: id, spec, ...columnsOf(next) },
      memory_bytes: next.memory === undefined ? null : BigInt(next.memory.memoryBytes),
      memory_bound: next.memory?.isMemoryBound ?? null,
    })
    .execute();
}

export const columnsOf = ({ extraArgs, standardArgs, contextLength }: Spec) => ({
  extra_args: [...extraArgs],
  standard_args: JSON.stringify(standardArgs ?? {}),
  context_length: contextLength,
});

/** Of the deployment's row. `spec`: which the claim is of. */
export const memoryColumnsOf = <Spec>({ memoryBytes, isMemoryBound }: MemoryClaim, spec: Spec) => ({
  memory_bytes: BigInt(memoryBytes),
  memory_bound: isMemoryBound,
  memory_spec: spec,
});

/** The next number, for what replaces it. */
export async function addSpec(trx: Transaction<Database>, id: DeploymentId, next: Spec): Promise<number> {
  const { last } = await trx
    .selectFrom("deployment_spec")
    .select((eb) => eb.fn.max("spec").as("last"))
    .where("deploy_id", "=", id)
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
    .select(["spec", "serving_spec"])
    .where("deploy_id", "=", id)
    .where("revision", "=", ifRevision)
    .executeTakeFirst();
  if (!now || now.serving_spec === now.spec) return undefined;
  const [before] = (await readSpecs(trx, [{ deploy_id: id, spec: now.serving_spec }])).values();
  return before && isDeepStrictEqual(runOf(before), runOf(next)) ? now.serving_spec : undefined;
}

const runOf = ({ extraArgs, standardArgs = {}, contextLength }: Spec) => ({ extraArgs, standardArgs, contextLength });

/** Names a spec. */
export interface SpecOf {
  readonly deploy_id: string;
  readonly spec: number;
}

/** These, by `deploy_id/spec`. Earlier ones stay, as many as there were updates: they are not read. */
export async function readSpecs(
  db: Kysely<Database> | Transaction<Database>,
  wanted: readonly SpecOf[],
): Promise<ReadonlyMap<string, Spec>> {
  if (wanted.length === 0) return new Map();
  const ids = wanted.map((one) => one.deploy_id);
  const specs = wanted.map((one) => one.spec);
  const rows = await db
    .selectFrom("deployment_spec")
    .selectAll()
    .where(sql<boolean>`(deploy_id, spec) in (select * from unnest(${ids}::text[], ${specs}::integer[]))`)
    .execute();
  return new Map(
    rows.map((row) => [
      `${row.deploy_id}/${row.spec}`,
      {
        extraArgs: row.extra_args,
        standardArgs: row.standard_args,
        contextLength: row.context_length,
        ...(row.memory_bytes === null
          ? {}
          : { memory: { memoryBytes: Number(row.memory_bytes), isMemoryBound: row.memory_bound ?? false } }),
      },
    ]),
  );
}
