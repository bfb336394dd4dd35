// Fetches a set of a hub repository: the hub lists its files, each blob comes from the nearest source, and the complete set is
// recorded.

import { readFile } from "node:fs/promises";
import type { Logger } from "pino";
import type { Cache } from "./cache.ts";
import { unsupported } from "./choose-file.ts";
import type { DownloadSource } from "./download.ts";
import { type HubFound, isHubUnavailable, resolveHub } from "./hub.ts";
import type { HubOptions, HubSource } from "./hub-client.ts";
import type { Kept, KeptFile } from "./kept.ts";
import type { BlobHolder, Neighbourhood } from "./neighbours.ts";
import type { Progress } from "./progress.ts";
import type { Web } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

interface HubParts {
  readonly cache: Cache;
  readonly web: Web;
  readonly neighbourhood: Neighbourhood;
  readonly hub: HubOptions;
  readonly log: Logger;
}

/** Smaller files are not requested from neighbours. */
const worthAskingBytes = 1024 * 1024;

type FetchHub = (key: string, source: HubSource, onProgress: Progress, signal: AbortSignal) => Promise<Kept>;

export function createFetchHub(parts: HubParts): FetchHub {
  const { cache, neighbourhood, log } = parts;

  /** Without a reply from the hub, a neighbour that has the same set under the same token lists its files. */
  async function foundNearby(key: string, source: HubSource, signal: AbortSignal): Promise<HubFound | undefined> {
    const set = await neighbourhood.recall(key, source, signal);
    if (!set || (source.sha256 !== undefined && !set.files.some(({ sha256 }) => sha256 === source.sha256)))
      return undefined;
    const files = set.files.map(({ path, sha256, sizeBytes }) => ({
      path,
      content: { key: sha256, sha256, gitSha1: undefined, sizeBytes },
      open: async () => {
        throw lost(source.repo);
      },
    }));
    return { commit: set.commit, files, entry: set.entry === "" ? undefined : set.entry };
  }

  /** Fetches small files first; they can refuse the large ones. */
  async function collect(
    key: string,
    source: HubSource,
    found: HubFound & { readonly isUnconfirmed?: true },
    near: readonly BlobHolder[],
    onProgress: Progress,
    signal: AbortSignal,
  ): Promise<Kept> {
    const { repo, revision } = source;
    const contents = found.files.map(({ content }) => content);
    const doneAssembling = cache.holders.assemble(
      key,
      contents.flatMap(({ sha256 }) => sha256 ?? []),
    );
    try {
      await cache.needSpace(contents, 0, signal);
      const total = contents.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? Number.NaN), 0);
      const files: KeptFile[] = [];
      let before = 0;
      for (const { path, content, open } of found.files) {
        const nearer = content.sha256 === undefined ? [] : near.map((one) => one.source(content.sha256 ?? ""));
        const hub: DownloadSource = { name: "hub", open };
        const report: Progress = (done, ofFile) => {
          const ofAll = Number.isNaN(total) ? (found.files.length === 1 ? ofFile : 0) : total;
          onProgress(before + done, ofAll);
        };
        const fetch = { content, sources: [...nearer, hub], setting: "HF_ENDPOINT", onProgress: report };
        const blob = await cache.bring(fetch, signal);
        if (isJudged(path)) judgeText(repo, path, await readFile(cache.blobs.pathOf(blob.sha256), "utf8"));
        files.push({ path, ...blob });
        before += blob.sizeBytes;
      }
      const confirmation = found.isUnconfirmed ? { isUnconfirmed: true as const } : {};
      const set: Kept = { repo, revision, commit: found.commit, entry: found.entry ?? "", files, ...confirmation };
      await cache.kept.remember(key, set);
      log.info({ repo, commit: found.commit, files: files.length, bytes: before }, "weights here");
      return set;
    } finally {
      doneAssembling();
    }
  }

  async function nearest(repo: string, found: HubFound, signal: AbortSignal): Promise<readonly BlobHolder[]> {
    const [largest] = [...found.files].sort((a, b) => (b.content.sizeBytes ?? 0) - (a.content.sizeBytes ?? 0));
    const { sha256, sizeBytes = 0 } = largest?.content ?? {};
    if (sha256 === undefined || sizeBytes < worthAskingBytes) return [];
    if ((await cache.blobs.has(sha256, signal)) !== undefined) return [];
    return neighbourhood.holders(sha256, repo, signal);
  }

  return async (key, source, onProgress, signal) => {
    const last = await cache.kept.recall(key);
    const isHere = last !== undefined && (await cache.isWhole(last, signal));
    if (isHere && last.commit === source.revision && !last.isUnconfirmed) return last;
    let found: HubFound & { readonly isUnconfirmed?: true };
    try {
      found = await resolveHub(parts.web, source, parts.hub, signal);
    } catch (error) {
      if (!isHubUnavailable(error)) throw error;
      // While the hub is unavailable, use a set that it allowed before, here or on a neighbour.
      if (isHere) return last;
      const nearby = await foundNearby(key, source, signal);
      if (!nearby) throw error;
      found = { ...nearby, isUnconfirmed: true };
    }
    return collect(key, source, found, await nearest(source.repo, found, signal), onProgress, signal);
  };
}

function lost(repo: string): WeightsError {
  const text = `The hub does not answer and the neighbour that has ${repo} did not send it: the download is tried again by itself.`;
  return new WeightsError("hub_unreachable", text, { retryable: true });
}

/** Files whose `auto_map` makes a loader import Python from the repository. */
const loaders = /(^|\/)(config|tokenizer_config|generation_config|processor_config|preprocessor_config)\.json$/;

const adapterConfig = /(^|\/)adapter_config\.json$/;

/** Throws when the file requires running code, or is not of the type that its name states. */
function judgeText(repo: string, path: string, text: string): void {
  if (loaders.test(path)) {
    const value = objectIn(repo, path, text);
    if (Object.hasOwn(value, "auto_map"))
      throw unsupported(
        `${repo} requires its own Python code (auto_map in ${path}), which is not run: deploy a repository of the same model that the engine knows without it.`,
      );
  }
  if (adapterConfig.test(path)) {
    const type = objectIn(repo, path, text)["peft_type"];
    if (type !== "LORA")
      throw unsupported(
        `${repo} is an adapter of kind ${JSON.stringify(type ?? null).slice(0, 40)}: only LORA adapters can be loaded.`,
      );
  }
}

const isJudged = (path: string): boolean => loaders.test(path) || adapterConfig.test(path);

function objectIn(repo: string, path: string, text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw unsupported(`${path} in ${repo} is not a JSON object: name a repository whose files are whole.`);
}
