// Numbered specifications of deployments. Rows are immutable: instances of an older one keep what they were started with.
import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import type { DeploymentVersion, MemoryClaim, StandardArgs } from "../../deployments/store.ts";
import type { Db, Trx } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";

export interface Spec {
  readonly extraArgs: readonly string[];
  readonly standardArgs?: StandardArgs;
  readonly contextLength: number;
  /** Undefined: unknown. */
  readonly memory?: MemoryClaim;
}

export async function insertSpec(trx: Trx, id: DeploymentId, spec: number, next: Spec): Promise<void> {
  await trx
    .insertInto("deploymentSpec")
    .values({
      deployId: id,
      spec,
      ...columnsOf(next),
      memoryBytes: next.memory === undefined ? null : BigInt(next.memory.memoryBytes),
      memoryBound: next.memory?.isMemoryBound ?? null,
    })
    .execute();
}

export const columnsOf = ({ extraArgs, standardArgs, contextLength }: Spec) => ({
  extraArgs: [...extraArgs],
  standardArgs: JSON.stringify(standardArgs ?? {}),
  contextLength,
});

/** Columns of the deployment's row. `spec`: specification that the claim belongs to. */
export const memoryColumnsOf = <Spec>({ memoryBytes, isMemoryBound }: MemoryClaim, spec: Spec) => ({
  memoryBytes: BigInt(memoryBytes),
  memoryBound: isMemoryBound,
  memorySpec: spec,
});

/** Stores a new specification and returns its number. */
export async function addSpec(trx: Trx, id: DeploymentId, next: Spec): Promise<number> {
  const { last } = await trx
    .selectFrom("deploymentSpec")
    .select((eb) => eb.fn.max("spec").as("last"))
    .where("deployId", "=", id)
    .executeTakeFirstOrThrow();
  await insertSpec(trx, id, last + 1, next);
  return last + 1;
}

/** Returns the serving specification's number if an update is running and `next` would revert it. */
export async function servingAs(
  trx: Trx,
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

interface SpecKey {
  readonly deployId: DeploymentId;
  readonly spec: number;
}

/** Reads the given specifications, by `deploy_id/spec`. */
export async function readSpecs(db: Db, keys: readonly SpecKey[]): Promise<ReadonlyMap<string, Spec>> {
  if (keys.length === 0) return new Map();
  const ids = keys.map((one) => one.deployId);
  const specs = keys.map((one) => one.spec);
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

const maxVersions = 100;

/** The newest first; undefined: no such deployment of the account. */
export async function readVersions(
  db: Db,
  id: DeploymentId,
  account: AccountId,
): Promise<readonly DeploymentVersion[] | undefined> {
  const rows = await db
    .selectFrom("deploymentSpec as s")
    .innerJoin("deployment as d", "d.deployId", "s.deployId")
    .select(["s.spec as version", "s.extraArgs", "s.standardArgs", "s.contextLength"])
    .select([epochMs("s.createdAt").as("createdAtMs"), "d.spec as desired", "d.servingSpec as serving"])
    .where("s.deployId", "=", id)
    .where("d.accountId", "=", account)
    .where("d.kind", "=", "model")
    .where("d.deletedAt", "is", null)
    .orderBy("s.spec", "desc")
    .limit(maxVersions)
    .execute();
  if (rows.length === 0) return undefined;
  return rows.map(({ desired, serving, ...row }) => ({
    ...row,
    isDesired: row.version === desired,
    isServing: row.version === serving,
  }));
}
