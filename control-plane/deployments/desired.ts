import type { Logger } from "pino";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { HostRecord } from "../fleet/host.ts";
import type { NodeWeights } from "../fleet/store.ts";
import type { ContainerParts, Deployment, WeightsSource } from "./deployment.ts";
import { type Resources, resourcesOf } from "./resources.ts";
import { batchSizeOf } from "./standard-args.ts";
import type { Adapter, DeploymentStore, DesiredAdapter, DesiredAgentInstance } from "./store.ts";

export interface DesiredInstance extends Resources {
  readonly instanceId: InstanceId;
  readonly deployId: DeploymentId;
  readonly generation: number;
  readonly engine: Deployment["engine"];
  readonly servedModelName: string;
  readonly task: string;
  readonly weights: WeightsSource;
  /** Empty without one. Never logged. */
  readonly weightsToken: string;
  readonly gpuUuids: readonly string[];
  /** Of the one GPU it shares; 0: its GPUs are its own. */
  readonly gpuMemoryBytes: number;
  /** What that is of the GPU; 1: all of it. */
  readonly gpuShare: number;
  readonly maxBatchSize: number;
  readonly contextLength: number;
  readonly extraArgs: readonly string[];
  /** Its own; empty: the host's for the engine. */
  readonly image: string;
  readonly externalUrl: string;
  /** Of a rented container. `firstStart` is never logged. */
  readonly rental: (ContainerParts & { readonly firstStart: string }) | undefined;
  readonly agentInstance: DesiredAgentInstance | undefined;
  /** To be held while it serves. */
  readonly adapters: readonly OpenAdapter[];
}

interface OpenAdapter extends Pick<Adapter, "id" | "repo" | "revision" | "file" | "commit"> {
  /** Undefined: it is a repository's. Never logged. */
  readonly url: string | undefined;
  /** Empty without one. Never logged. */
  readonly token: string;
}

/** Everything one host is to run, and what it is to remove: nothing else is ever removed. */
export interface DesiredSet {
  readonly nodeEpoch: bigint;
  readonly generation: bigint;
  readonly instances: readonly DesiredInstance[];
  readonly tombstones: readonly InstanceId[];
  /** Unix ms at which requests on what is moved are cut; 0: the host is not being emptied. */
  readonly emptiedByMs: number;
  /** Of the tombstones, those that are moved elsewhere. */
  readonly moved: readonly InstanceId[];
  readonly prefetch: readonly NodeWeights[];
}

/** Undefined when the host is unknown. Throws when the database is away. */
export async function desiredSet(
  deps: {
    readonly store: Pick<DeploymentStore, "desired">;
    readonly openToken: (account: Deployment["account"], sealed: Buffer) => Promise<string>;
    readonly log: Pick<Logger, "error">;
  },
  host: Pick<HostRecord, "id" | "inventory">,
): Promise<DesiredSet | undefined> {
  const rows = await deps.store.desired(host.id satisfies HostId);
  if (!rows) return undefined;
  const instances = await Promise.all(
    rows.instances.map(
      async ({
        instance,
        deployment,
        standardArgs,
        weights,
        weightsToken,
        agentInstance,
        adapters,
      }): Promise<DesiredInstance | undefined> => {
        const secrets = await secretsOf(deployment, weightsToken, deps);
        return (
          secrets && {
            instanceId: instance.id,
            deployId: deployment.id,
            generation: instance.generation,
            engine: deployment.engine,
            servedModelName: servedNameOf(deployment),
            task: deployment.task,
            weights,
            ...secrets,
            gpuUuids: instance.gpuUuids,
            // Fewer at once than it was started for where its owner said so since; never more.
            maxBatchSize: Math.min(batchSizeOf(deployment), batchSizeOf({ ...deployment, standardArgs })),
            contextLength: deployment.contextLength,
            extraArgs: deployment.extraArgs,
            image: deployment.image ?? "",
            externalUrl: deployment.externalUrl ?? "",
            agentInstance,
            adapters: await Promise.all(adapters.map((adapter) => opened(adapter, deps))),
            gpuMemoryBytes: instance.gpuMemoryBytes,
            gpuShare: instance.gpuShare,
            ...(agentInstance ?? resourcesOf(instance.gpuUuids, host.inventory, instance.gpuShare)),
          }
        );
      },
    ),
  );
  return { ...rows, instances: instances.filter((one) => one !== undefined) };
}

/**
 * One secret that does not open says nothing about the host's other instances: a model goes on without its token, which only
 * a download needs; a container is not told of, rather than started without what its owner wants done first.
 */
async function secretsOf(
  { id, account, container }: Deployment,
  sealed: Buffer | null,
  { openToken, log }: Pick<Parameters<typeof desiredSet>[0], "openToken" | "log">,
): Promise<Pick<DesiredInstance, "weightsToken" | "rental"> | undefined> {
  let secret = "";
  try {
    if (sealed) secret = await openToken(account, sealed);
  } catch (error) {
    if ((error as { code?: unknown }).code === "store_away") throw error;
    log.error({ err: error, deployment: id, alert: "sealed_secret_unreadable" }, "a deployment's secret does not open");
    if (container) return undefined;
  }
  if (!container) return { weightsToken: secret, rental: undefined };
  return { weightsToken: "", rental: { ...container, firstStart: secret } };
}

/** Without what does not open: the host says what then stands in its way. */
async function opened(
  { token, url, account, source, ...adapter }: DesiredAdapter,
  { openToken, log }: Pick<Parameters<typeof desiredSet>[0], "openToken" | "log">,
): Promise<OpenAdapter> {
  const { id, repo, revision, file, commit } = adapter;
  const open = async (sealed: Buffer | null): Promise<string> => {
    try {
      return sealed ? await openToken(account, sealed) : "";
    } catch (error) {
      if ((error as { code?: unknown }).code === "store_away") throw error;
      log.error({ err: error, adapter: id, alert: "sealed_secret_unreadable" }, "an adapter's secret does not open");
      return "";
    }
  };
  const isHub = source === "huggingface";
  return { id, repo, revision, file, commit, url: isHub ? undefined : await open(url), token: await open(token) };
}

/** The name the engine knows. */
export function servedNameOf(deployment: Pick<Deployment, "modelName" | "weights">): string {
  return deployment.weights.servedName ?? deployment.modelName;
}
