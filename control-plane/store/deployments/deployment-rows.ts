// Deployments and instances as the features read them.
import { type Selectable, sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import { type InstancePhase, isServing, servingPhases, sleepingPhases } from "../../../proto/instance-phase.ts";
import type { Deployment, DeploymentKind } from "../../deployments/store.ts";
import type { Database, Db } from "../core/schema.ts";
import { epochMs } from "../core/time.ts";

/** Literal, so that PostgreSQL uses partial indexes. */
const hasPhase = (phases: readonly InstancePhase[]) =>
  sql<boolean>`i.phase in (${sql.join(phases.map((phase) => sql.lit(phase)))})`;

/** `isServing` of an instance, whose table is `i`. */
export const isServingRow = hasPhase(servingPhases);
/** `isSleeping` of an instance, whose table is `i`. */
export const isSleepingRow = hasPhase(sleepingPhases);

interface FirstInstance {
  readonly phase: InstancePhase;
  readonly done: number;
  readonly total: number;
  readonly code: string;
  readonly message: string;
  readonly batch: number | null;
}

interface Counts {
  readonly running: number;
  readonly booting: number;
  readonly current: number;
  readonly outdated: number;
}

type DeploymentRow = Selectable<Database["deployment"]> & {
  readonly agentImage: string | null;
  readonly counts: Counts;
  readonly first: FirstInstance | null;
};

/** Maximum concurrent requests of an instance. The deployment's table is `d`. */
export const batchSize = sql<number>`coalesce((d.standard_args->>'maxConcurrentRequests')::int, d.max_batch_size)`;

/**
 * The same for one instance, whose table is `i`: at most what it was started for, and less if its owner lowered it since. During
 * a raise, an old instance keeps its limit. An external server without a limit of its owner: as many as it reports.
 */
export const instanceBatchSize = sql<number>`coalesce(case when d.takes_server_batch then i.server_batch_size end, least(${batchSize}, (
  select coalesce((s.standard_args->>'maxConcurrentRequests')::int, d.max_batch_size) from deployment_spec s
  where s.deploy_id = i.deploy_id and s.spec = i.spec)))`;

/** Maximum deleted deployments in a list. */
const maxDeleted = 1_000;

/** Deployments `d` in an account's list. Uses indexes, so that many deleted ones do not slow it down. */
export function isListed(account: AccountId, kind: DeploymentKind | undefined) {
  const own = sql`account_id = ${account} and ${kind === undefined ? sql`true` : sql`kind = ${kind}`}`;
  return sql<boolean>`d.deploy_id in (
    select deploy_id from deployment where ${own} and status <> 'deleted'
    union all (select deploy_id from deployment where ${own} and status = 'deleted'
      order by deleted_at desc limit ${maxDeleted}))`;
}

/** Selects every column, counts of instances, and the progress of the first one. */
export function selectDeployments(db: Db) {
  return db
    .selectFrom("deployment as d")
    .selectAll("d")
    .select(
      sql<string | null>`case when d.kind = 'agent_instance' then
          (select own.image from agent_instance own where own.deploy_id = d.deploy_id) end`.as("agentImage"),
    )
    .select(
      sql<Counts>`(select json_build_object(
          'running', count(*) filter (where ${isServingRow}),
          'booting', count(*) filter (where i.phase in ('pending', 'downloading', 'creating', 'loading')),
          'current', count(*) filter (where ${isServingRow} and i.spec = d.spec and i.observed_generation >= i.generation),
          'outdated', count(*) filter (where ${isServingRow} and i.spec <> d.spec))
        from instance i where i.deploy_id = d.deploy_id and i.tombstoned_at is null and not exists (
          select 1 from node_identity n where n.host_id = i.host_id and n.revoked_at is not null))`.as("counts"),
    )
    .select(
      sql<FirstInstance | null>`(select json_build_object('phase', i.phase, 'done', i.bytes_done, 'total', i.bytes_total,
          'code', i.fail_code, 'message', i.fail_message, 'batch', i.server_batch_size)
        from instance i where i.deploy_id = d.deploy_id and i.tombstoned_at is null
        order by i.created_at limit 1)`.as("first"),
    );
}

export function asDeployment(row: DeploymentRow): Deployment {
  return {
    id: row.deployId,
    account: row.accountId,
    kind: row.kind,
    modelName: row.modelName,
    version: row.version,
    task: row.task,
    type: row.type,
    engine: row.engine,
    status: row.status,
    failReason: row.failReason,
    gpu: row.gpu,
    numGpus: row.numGpus,
    maxBatchSize: (row.takesServerBatch && row.first?.batch) || row.maxBatchSize,
    ...(row.takesServerBatch ? { takesServerBatch: true } : {}),
    minInstances: row.minInstances,
    maxInstances: row.maxInstances,
    target: row.target,
    inactiveShutdown: row.inactiveShutdown,
    ...(row.sleepAfter > 0 ? { sleepAfterSeconds: row.sleepAfter } : {}),
    scaling: row.scaling,
    startMs: row.startMs,
    weights: row.weights,
    hasWeightsToken: row.weightsToken !== null,
    ...(row.container === null ? {} : { container: row.container }),
    extraArgs: row.extraArgs,
    standardArgs: row.standardArgs,
    ...imageOf(row),
    externalUrl: row.externalUrl,
    contextLength: row.contextLength,
    ...(row.sharePrefixCache ? { sharesPrefixCache: true } : {}),
    memoryBytes: Number(row.memoryBytes),
    // The bound of another specification does not apply.
    isMemoryBound: row.memoryBound && row.memorySpec === row.spec,
    ...(row.priceSubject === null ? {} : { priceSubject: row.priceSubject }),
    pendingReasons: row.pendingReasons,
    generation: row.generation,
    spec: row.spec,
    servingSpec: row.servingSpec,
    updateError: row.updateError,
    replacements: row.replacements,
    replacedAtMs: row.replacedAt?.getTime() ?? 0,
    awaitedAtMs: row.awaitedAt?.getTime() ?? 0,
    usedAtMs: row.usedAt?.getTime() ?? 0,
    revision: row.revision,
    createdAtMs: row.createdAt.getTime(),
    updatedAtMs: row.updatedAt.getTime(),
    running: row.counts.running,
    rollout: { booting: row.counts.booting, upToDate: row.counts.current, outdated: row.counts.outdated },
    progress: row.first && progressOf(row.first),
  };
}

function progressOf({ phase, done, total, code, message }: FirstInstance): NonNullable<Deployment["progress"]> {
  const isComing = !isServing(phase) && phase !== "failed";
  const trouble = code === "" ? message : `the last try failed: ${code}: ${message}`;
  return { phase, doneBytes: done, totalBytes: total, trouble: isComing ? trouble : "" };
}

export const selectInstances = (db: Db) =>
  db
    .selectFrom("instance")
    .select(["instanceId as id", "deployId", "hostId", "generation", "spec", "observedGeneration", "phase"])
    .select(["failCode", "failMessage", "gpuUuids", "gpuShare"])
    .select([
      sql<number>`gpu_memory_bytes::float8`.as("gpuMemoryBytes"),
      sql<boolean>`tombstoned_at is not null`.as("isTombstoned"),
      epochMs("createdAt").as("createdAtMs"),
      sql<number>`coalesce(floor(extract(epoch from awaited_at) * 1000), 0)::float8`.as("awaitedAtMs"),
    ]);

const imageOf = ({ image, agentImage }: DeploymentRow) => {
  const own = agentImage ?? image;
  return own === "" ? {} : { image: own };
};
