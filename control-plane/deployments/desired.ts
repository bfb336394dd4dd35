import type { Logger } from "pino";
import type { OwnApi } from "../../proto/api-formats.ts";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import type { HostRecord } from "../fleet/host.ts";
import type { NodeWeights } from "../fleet/store.ts";
import { DatabaseUnavailable } from "../service-error.ts";
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
  /** Empty: none. Never logged. */
  readonly weightsToken: string;
  readonly gpuUuids: readonly string[];
  /** Memory on its shared GPU; 0: exclusive GPUs. */
  readonly gpuMemoryBytes: number;
  /** The same memory as a share of the GPU; 1: all of it. */
  readonly gpuShare: number;
  readonly maxBatchSize: number;
  /** Its external server's own number, where it reports one, replaces `maxBatchSize`. */
  readonly takesServerBatch: boolean;
  readonly contextLength: number;
  readonly extraArgs: readonly string[];
  /** Its own image; empty: the host's image for the engine. */
  readonly image: string;
  readonly externalUrl: string;
  /** Empty: openai. */
  readonly externalApi: "" | OwnApi;
  readonly sharesPrefixCache: boolean;
  /** 0: never. */
  readonly sleepAfterSeconds: number;
  /** Unix ms of the last caller that waited and was sent to this instance; 0: none. */
  readonly awaitedAtMs: number;
  readonly owner: Deployment["account"];
  /** Set for a rented container. `firstStart` is never logged. */
  readonly rental: (ContainerParts & { readonly firstStart: string }) | undefined;
  readonly agentInstance: DesiredAgentInstance | undefined;
  /** Adapters to load while it serves. */
  readonly adapters: readonly OpenAdapter[];
}

interface OpenAdapter extends Pick<Adapter, "id" | "repo" | "revision" | "file" | "commit"> {
  /** Undefined: from a repository. Never logged. */
  readonly url: string | undefined;
  /** Empty: none. Never logged. */
  readonly token: string;
}

/** Everything one host must run, and what it must remove: nothing else is ever removed. */
export interface DesiredSet {
  readonly nodeEpoch: bigint;
  readonly generation: bigint;
  readonly instances: readonly DesiredInstance[];
  readonly tombstones: readonly InstanceId[];
  /** Unix ms at which moved instances' requests are cut; 0: the host is not being drained. */
  readonly emptiedByMs: number;
  /** Tombstones of instances that move to other hosts. */
  readonly moved: readonly InstanceId[];
  readonly prefetch: readonly NodeWeights[];
}

/** Undefined when the host is unknown. Throws when the database is unavailable. */
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
            // The owner may lower the limit at run time; it never exceeds the one at start.
            maxBatchSize: Math.min(batchSizeOf(deployment), batchSizeOf({ ...deployment, standardArgs })),
            takesServerBatch: deployment.takesServerBatch ?? false,
            contextLength: deployment.contextLength,
            extraArgs: deployment.extraArgs,
            image: deployment.image ?? "",
            externalUrl: deployment.externalUrl ?? "",
            externalApi: weights.api ?? "",
            sharesPrefixCache: deployment.sharesPrefixCache ?? false,
            sleepAfterSeconds: deployment.sleepAfterSeconds ?? 0,
            awaitedAtMs: instance.awaitedAtMs,
            owner: deployment.account,
            agentInstance,
            adapters: await Promise.all(adapters.map((adapter) => opened(adapter, deps))),
            gpuMemoryBytes: instance.gpuMemoryBytes,
            gpuShare: instance.gpuShare,
            ...(agentInstance ?? resourcesOf(instance.gpuUuids, host.inventory, hostShareOf(deployment, instance))),
          }
        );
      },
    ),
  );
  return { ...rows, instances: instances.filter((one) => one !== undefined) };
}

/** A model that sleeps may move its weights into the host's memory: its part of the GPU would be too small a limit for them. */
const hostShareOf = ({ sleepAfterSeconds = 0 }: Deployment, { gpuShare }: { readonly gpuShare: number }): number =>
  sleepAfterSeconds > 0 ? 1 : gpuShare;

/**
 * A secret that cannot be opened affects only its instance: a model runs without its token, which only a download needs; a
 * container is not sent, because its first-start script is required.
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
    if (error instanceof DatabaseUnavailable) throw error;
    log.error(
      { err: error, deployment: id, alert: "sealed_secret_unreadable" },
      "could not open a deployment's secret",
    );
    if (container) return undefined;
  }
  if (!container) return { weightsToken: secret, rental: undefined };
  return { weightsToken: "", rental: { ...container, firstStart: secret } };
}

/** Without the secret: the host then reports why loading fails. */
async function opened(
  { token, url, account, source, ...adapter }: DesiredAdapter,
  { openToken, log }: Pick<Parameters<typeof desiredSet>[0], "openToken" | "log">,
): Promise<OpenAdapter> {
  const { id, repo, revision, file, commit } = adapter;
  const open = async (sealed: Buffer | null): Promise<string> => {
    try {
      return sealed ? await openToken(account, sealed) : "";
    } catch (error) {
      if (error instanceof DatabaseUnavailable) throw error;
      log.error({ err: error, adapter: id, alert: "sealed_secret_unreadable" }, "could not open an adapter's secret");
      return "";
    }
  };
  const isHub = source === "huggingface";
  return { id, repo, revision, file, commit, url: isHub ? undefined : await open(url), token: await open(token) };
}

/** Returns the model name at the engine. */
export function servedNameOf(deployment: Pick<Deployment, "modelName" | "weights">): string {
  return deployment.weights.servedName ?? deployment.modelName;
}
