// Connects the weights cache to the desired state of this host, which decides what it keeps.

import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { KeptWeights } from "../../proto/gen/stoker/fleet/v1/KeptWeights.ts";
import { background, repeat } from "../../proto/repeat.ts";
import type { AgentConfig } from "../config.ts";
import { draftWeights } from "../engines/draft-model.ts";
import type { AgentMetrics } from "../metrics/agent-metrics.ts";
import { createWeights, type KeptSummary, type WeightsStore } from "../weights/fetch-weights.ts";
import type { AskNeighbours, DialNeighbour } from "../weights/neighbours.ts";
import { createPrefetcher, type PrefetchState } from "../weights/prefetch.ts";

interface HostWeights extends Pick<WeightsStore, "ensure" | "serve" | "close"> {
  /** Keeps the weights it needs, and prefetches those it names. */
  setDesired(desired: DesiredState__Output): void;
  /** Cached sets and current downloads, as of the last check of the disk. */
  report(): readonly KeptWeights[];
}

const lookEveryMs = 10_000;

export function createHostWeights(
  config: AgentConfig,
  near: { readonly neighbours: AskNeighbours; readonly dialNeighbour: DialNeighbour },
  metrics: Pick<AgentMetrics, "downloaded" | "downloadFailed">,
  log: Logger,
): HostWeights {
  const store = createWeights({
    cacheDir: config.modelsDir,
    hfEndpoint: config.hfEndpoint,
    hfToken: config.hfToken?.reveal(),
    isOffline: config.hfOffline,
    metadataMs: config.hfMetadataMs,
    silenceMs: config.hfSilenceMs,
    pypiIndex: config.pypiIndex,
    quotaBytes: config.modelsQuotaBytes,
    s3Endpoint: config.weightsS3Endpoint,
    modelScopeEndpoint: config.modelScopeEndpoint,
    trustedOrigins: config.weightsOrigins,
    sharedFolders: config.sharedWeights,
    allowsPrivateUrls: config.allowsPrivateUrls,
    blockedNetworks: config.blockedNetworks,
    ...near,
    onBytes: metrics.downloaded,
    log,
  });
  const prefetcher = createPrefetcher({ store, failed: metrics.downloadFailed, log });
  let here: readonly KeptSummary[] = [];
  const look = () =>
    store.list().then(
      (list) => {
        here = list;
      },
      (error) => log.warn({ err: error }, "the weights cache could not be read"),
    );
  const looking = background((signal) => repeat(lookEveryMs, signal, look));
  looking.start();

  return {
    ensure: async (weights, onProgress, signal) => {
      const found = await store.ensure(weights, onProgress, signal);
      void look();
      return found;
    },
    serve: store.serve,
    setDesired(desired) {
      const pinned = desired.prefetch.filter((one) => one.pinned);
      const adapters = desired.instances.flatMap((one) => one.adapters);
      const drafts = desired.instances.flatMap((one) => draftWeights(one) ?? []);
      const named = [...desired.instances, ...adapters, ...pinned].flatMap(({ weights }) => weights ?? []);
      store.hold([...named, ...drafts]);
      prefetcher.want(desired.prefetch);
    },
    report: () => reportOf(here, prefetcher.state()),
    async close() {
      await looking.stop();
      await prefetcher.close();
      await store.close();
    },
  };
}

function reportOf(here: readonly KeptSummary[], prefetches: readonly PrefetchState[]): readonly KeptWeights[] {
  const isHere = new Set(here.map(({ key }) => key));
  const byKey = new Map(prefetches.map((one) => [one.key, one]));
  const pending = prefetches.filter(({ key }) => key === undefined || !isHere.has(key));
  return [
    ...here.map(({ key, repo, revision, commit, sizeBytes, isInUse, usedAtMs }) => ({
      repo,
      revision,
      commit,
      bytes: sizeBytes,
      bytesTotal: sizeBytes,
      pinned: byKey.get(key)?.pinned ?? false,
      inUse: isInUse,
      usedAtMs: Math.round(usedAtMs),
      failCode: "",
      failMessage: "",
      id: byKey.get(key)?.id ?? "",
    })),
    ...pending.map(({ id, repo, revision, done, total, pinned, failCode, failMessage }) => ({
      repo,
      revision,
      commit: "",
      bytes: done,
      bytesTotal: total,
      pinned,
      inUse: false,
      usedAtMs: 0,
      failCode,
      failMessage,
      id,
    })),
  ];
}

/** A deployment that sleeps wakes sooner with it. */
const keptMs = 7 * 24 * 3600 * 1000;

/** `deployIds`: those that stay whatever their age. Never throws. Returns what was removed. */
export async function dropOldGraphs(
  graphsDir: string,
  deployIds: ReadonlySet<string>,
  nowMs: number,
): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const name of await readdir(graphsDir).catch(() => [])) {
    if (deployIds.has(name)) continue;
    const folder = join(graphsDir, name);
    const found = await stat(folder).catch(() => undefined);
    if (!found || nowMs - found.mtimeMs < keptMs) continue;
    await rm(folder, { recursive: true, force: true }).then(
      () => removed.push(name),
      () => {},
    );
  }
  return removed;
}
