// Rows of the deployment and instance tables to the records of the feature, and back nowhere: writes name their columns.
import { type Kysely, type Selectable, sql } from "kysely";
import { type GpuType, isGpuType } from "../../../proto/gpu.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../../proto/ids.ts";
import type { InstancePhase } from "../../../proto/instance-phase.ts";
import type { Deployment, DeploymentKind, DeploymentStatus, Instance, WeightsSource } from "../../deployments/store.ts";
import type { Database } from "../core/schema.ts";

interface FirstInstance {
  readonly phase: InstancePhase;
  readonly done: number;
  readonly total: number;
  readonly code: string;
  readonly message: string;
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

/** Requests that an instance lets in at once. The deployment's table is `d`. */
export const batchSize = sql<number>`coalesce((d.standard_args->>'maxConcurrentRequests')::int, d.max_batch_size)`;

/**
 * The same of one instance, whose table is `i`: no more than it was started for, and fewer where its owner said so since. One that
 * runs beside its successor during a raise still takes what it took.
 */
export const instanceBatchSize = sql<number>`least(${batchSize}, (
  select coalesce((s.standard_args->>'maxConcurrentRequests')::int, d.max_batch_size) from deployment_spec s
  where s.deploy_id = i.deploy_id and s.spec = i.spec))`;

/** Of an account's deployments, those that are still listed after they were deleted. */
const maxDeleted = 1_000;

/** What a list of an account's deployments holds, whose table is `d`. Found by indexes, whatever was deleted before. */
export function isListed(account: AccountId, kind: DeploymentKind | undefined) {
  const own = sql`account_id = ${account} and ${kind === undefined ? sql`true` : sql`kind = ${kind}`}`;
  return sql<boolean>`d.deploy_id in (
    select deploy_id from deployment where ${own} and status <> 'deleted'
    union all (select deploy_id from deployment where ${own} and status = 'deleted'
      order by deleted_at desc limit ${maxDeleted}))`;
}

/** Every column, the number of serving instances, and how far the first one is. */
export function selectDeployments(db: Kysely<Database>) {
  return db
    .selectFrom("deployment as d")
    .selectAll("d")
    .select(
      sql<string | null>`case when d.kind = 'agent_instance' then
          (select own.image from agent_instance own where own.deploy_id = d.deploy_id) end`.as("agentImage"),
    )
    .select(
      sql<Counts>`(select json_build_object(
          'running', count(*) filter (where i.phase = 'ready'),
          'booting', count(*) filter (where i.phase in ('pending', 'downloading', 'creating', 'loading')),
          'current', count(*) filter (where i.phase = 'ready' and i.spec = d.spec and i.observed_generation >= i.generation),
          'outdated', count(*) filter (where i.phase = 'ready' and i.spec <> d.spec))
        from instance i where i.deploy_id = d.deploy_id and i.tombstoned_at is null and not exists (
          select 1 from node_identity n where n.host_id = i.host_id and n.revoked_at is not null))`.as("counts"),
    )
    .select(
      sql<FirstInstance | null>`(select json_build_object('phase', i.phase, 'done', i.bytes_done, 'total', i.bytes_total,
          'code', i.fail_code, 'message', i.fail_message)
        from instance i where i.deploy_id = d.deploy_id and i.tombstoned_at is null
        order by i.created_at limit 1)`.as("first"),
    );
}

export function asDeployment(row: DeploymentRow): Deployment {
  return {
    id: row.deployId as DeploymentId,
    account: row.accountId as AccountId,
    kind: row.kind,
    modelName: row.modelName,
    version: row.version,
    task: row.task,
    type: row.type,
    engine: row.engine,
    status: row.status as DeploymentStatus,
    failReason: row.failReason,
    gpu: gpuType(row.gpu),
    numGpus: row.numGpus,
    maxBatchSize: row.maxBatchSize,
    minInstances: row.minInstances,
    maxInstances: row.maxInstances,
    target: row.target,
    inactiveShutdown: row.inactiveShutdown,
    weights: row.weights as unknown as WeightsSource,
    hasWeightsToken: row.weightsToken !== null,
    ...(row.container === null ? {} : { container: row.container }),
    extraArgs: row.extraArgs,
    standardArgs: row.standardArgs,
    ...imageOf(row),
    externalUrl: row.externalUrl,
    contextLength: row.contextLength,
    ...(row.sharePrefixCache ? { sharesPrefixCache: true } : {}),
    memoryBytes: Number(row.memoryBytes),
    // What bounded an earlier run says nothing of what runs now.
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
  const isComing = phase !== "ready" && phase !== "failed";
  const trouble = code === "" ? message : `the last try failed: ${code}: ${message}`;
  return { phase, doneBytes: done, totalBytes: total, trouble: isComing ? trouble : "" };
}

export function asInstance(row: Selectable<Database["instance"]>): Instance {
  return {
    id: row.instanceId as InstanceId,
    deployId: row.deployId as DeploymentId,
    hostId: row.hostId as HostId,
    generation: row.generation,
    spec: row.spec,
    observedGeneration: row.observedGeneration,
    phase: row.phase as InstancePhase,
    failCode: row.failCode,
    failMessage: row.failMessage,
    gpuUuids: row.gpuUuids,
    gpuShare: row.gpuShare,
    gpuMemoryBytes: Number(row.gpuMemoryBytes),
    isTombstoned: row.tombstonedAt !== null,
    createdAtMs: row.createdAt.getTime(),
  };
}

const gpuType = (text: string): GpuType => (isGpuType(text) ? text : "other");

const imageOf = ({ image, agentImage }: DeploymentRow) => {
  const own = agentImage ?? image;
  return own === "" ? {} : { image: own };
};
