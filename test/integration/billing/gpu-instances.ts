// Deployments with ready instances on GPUs of a type of their own, for tests of what GPU time costs.
import { type GpuMinute, readGpuMinute } from "../../../control-plane/billing/gpu-minute.ts";
import { gpuMinuteId } from "../../../proto/gpu-minute.ts";
import { type AccountId, type DeploymentId, type InstanceId, randomId } from "../../../proto/ids.ts";
import { usageRecord, type World } from "./world.ts";

export interface InstanceOptions {
  /** Nano-USD; USD 100 when left out. */
  readonly credit?: bigint;
  readonly gpus?: number;
}

/** An instance of its own account, ready unless said otherwise, on GPUs of a type of its own. */
export async function addInstance(world: World, options: InstanceOptions) {
  const { db } = world;
  const account: AccountId = await world.account(options.credit ?? 100_000_000_000n);
  const deployId = randomId<"deployment">(16);
  const instance = randomId<"instance">(16);
  const gpu = `test-${instance}`;
  const gpus = options.gpus ?? 1;
  await db
    .insertInto("deployment")
    .values({
      deploy_id: deployId,
      account_id: account,
      model_name: `acme/${instance}`,
      version: "v",
      task: "text-generation",
      type: "llm",
      engine: "stoker",
      status: "deployed",
      gpu,
      num_gpus: gpus,
      max_batch_size: 1,
      min_instances: 1,
      max_instances: 1,
      weights: "{}",
      weights_token: null,
      extra_args: [],
      external_url: null,
      context_length: 0,
      memory_bytes: 0n,
      pending_reasons: "[]",
    })
    .execute();
  await db
    .insertInto("host")
    .values({
      host_id: "host",
      hostname: "host",
      advertise: "http://127.0.0.1:1",
      inventory: "{}",
      node_epoch: 1n,
      ticket_key: Buffer.alloc(32),
      agent_version: "1",
      seen_at: new Date(),
    })
    .onConflict((at) => at.doNothing())
    .execute();
  await insertInstance(world, { instance, deployId, account });
  return { account, deployId, instance, gpu, gpus };
}
type Running = Awaited<ReturnType<typeof addInstance>>;

/** Another instance of the same deployment. */
export async function addSibling(world: World, of: Running): Promise<Running> {
  const instance = randomId<"instance">(16);
  await insertInstance(world, { ...of, instance });
  return { ...of, instance };
}

async function insertInstance(
  world: World,
  of: { readonly instance: InstanceId; readonly deployId: DeploymentId; readonly account: AccountId },
): Promise<void> {
  await world.db
    .insertInto("instance")
    .values({
      instance_id: of.instance,
      deploy_id: of.deployId,
      account_id: of.account,
      host_id: "host",
      generation: 1,
      gpu_uuids: ["GPU-1"],
      phase: "ready",
    })
    .execute();
}

/** As an agent sends them. */
export function minutesOf(of: Running, fromMs: number, count: number, readyMs = 60_000): GpuMinute[] {
  return Array.from({ length: count }, (_, index) => {
    const startMs = fromMs + index * 60_000;
    const wire = usageRecord(
      "" as AccountId,
      { input: 0, output: 0 },
      {
        requestId: gpuMinuteId(of.instance as InstanceId, startMs),
        admittedAtMs: String(startMs),
        endedAtMs: String(startMs + readyMs),
        instanceId: of.instance,
        deployId: of.deployId as DeploymentId,
        readyMs,
      },
    );
    const read = readGpuMinute(wire);
    if (!read) throw new Error("not a GPU minute");
    return read;
  });
}
