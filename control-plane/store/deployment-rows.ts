// Rows of the deployment and instance tables to the records of the feature, and back nowhere: writes name their columns.
import { type Kysely, type Selectable, sql } from "kysely";
import { type GpuType, isGpuType } from "../../proto/gpu.ts";
import type { AccountId, DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { InstancePhase } from "../../proto/instance-phase.ts";
import type { Deployment, DeploymentStatus, Instance, WeightsSource } from "../deployments/store.ts";
import type { Database } from "./schema.ts";

interface FirstInstance {
  readonly phase: InstancePhase;
  readonly done: number;
  readonly total: number;
}

type DeploymentRow = Selectable<Database["deployment"]> & {
  readonly running: bigint;
  readonly first: FirstInstance | null;
};

/** Every column, the number of serving instances, and how far the first one is. */
export function selectDeployments(db: Kysely<Database>) {
  return db
    .selectFrom("deployment as d")
    .selectAll("d")
    .select(
      sql<bigint>`(select count(*) from instance i
        where i.deploy_id = d.deploy_id and i.phase = 'ready' and i.tombstoned_at is null)`.as("running"),
    )
    .select(
      sql<FirstInstance | null>`(select json_build_object('phase', i.phase, 'done', i.bytes_done, 'total', i.bytes_total)
        from instance i where i.deploy_id = d.deploy_id and i.tombstoned_at is null
        order by i.created_at limit 1)`.as("first"),
    );
}

export function asDeployment(row: DeploymentRow): Deployment {
  return {
    id: row.deploy_id as DeploymentId,
    account: row.account_id as AccountId,
    kind: row.kind,
    modelName: row.model_name,
    version: row.version,
    task: row.task,
    type: row.type,
    engine: row.engine,
    status: row.status as DeploymentStatus,
    failReason: row.fail_reason,
    gpu: gpuType(row.gpu),
    numGpus: row.num_gpus,
    maxBatchSize: row.max_batch_size,
    minInstances: row.min_instances,
    maxInstances: row.max_instances,
    weights: row.weights as unknown as WeightsSource,
    hasWeightsToken: row.weights_token !== null,
    ...(row.container === null ? {} : { container: row.container }),
    extraArgs: row.extra_args,
    ...(row.image === "" ? {} : { image: row.image }),
    externalUrl: row.external_url,
    contextLength: row.context_length,
    memoryBytes: Number(row.memory_bytes),
    ...(row.price_subject === null ? {} : { priceSubject: row.price_subject }),
    pendingReasons: row.pending_reasons,
    generation: row.generation,
    revision: row.revision,
    createdAtMs: row.created_at.getTime(),
    updatedAtMs: row.updated_at.getTime(),
    running: Number(row.running),
    progress: row.first && { phase: row.first.phase, doneBytes: row.first.done, totalBytes: row.first.total },
  };
}

export function asInstance(row: Selectable<Database["instance"]>): Instance {
  return {
    id: row.instance_id as InstanceId,
    deployId: row.deploy_id as DeploymentId,
    hostId: row.host_id as HostId,
    generation: row.generation,
    observedGeneration: row.observed_generation,
    phase: row.phase as InstancePhase,
    failCode: row.fail_code,
    failMessage: row.fail_message,
    gpuUuids: row.gpu_uuids,
    isTombstoned: row.tombstoned_at !== null,
    createdAtMs: row.created_at.getTime(),
  };
}

const gpuType = (text: string): GpuType => (isGpuType(text) ? text : "other");
