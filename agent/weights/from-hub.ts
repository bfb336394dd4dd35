// A set of a hub repository: what the hub says it is made of, each blob from whoever is nearest, remembered once it is whole.
import { readFile } from "node:fs/promises";
import type { Logger } from "pino";
import type { Cache } from "./cache.ts";
import type { DownloadSource } from "./download.ts";
import { type HubFound, isAway, resolveHub } from "./hub.ts";
import type { HubOptions, HubSource } from "./hub-options.ts";
import type { Kept, KeptFile } from "./kept.ts";
import type { BlobHolder, Neighbourhood } from "./neighbours.ts";
import type { Progress } from "./progress.ts";
import { isJudged, judgeText } from "./refuse-code.ts";
import type { Web } from "./web.ts";
import { WeightsError } from "./weights-error.ts";

export interface HubParts {
  readonly cache: Cache;
  readonly web: Web;
  readonly neighbourhood: Neighbourhood;
  readonly hub: HubOptions;
  readonly log: Logger;
}

/** Files below it are not worth a question to the neighbourhood. */
const worthAskingBytes = 1024 * 1024;

export type FetchHub = (key: string, source: HubSource, onProgress: Progress, signal: AbortSignal) => Promise<Kept>;

export function createFetchHub(parts: HubParts): FetchHub {
  const { cache, neighbourhood, log } = parts;

  /** The hub does not answer: a neighbour that was allowed the same with the same token tells what it is made of. */
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

  /** Small files first; they may forbid the large ones. */
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
      const heard = found.isUnconfirmed ? { isUnconfirmed: true as const } : {};
      const set: Kept = { repo, revision, commit: found.commit, entry: found.entry ?? "", files, ...heard };
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
      if (!isAway(error)) throw error;
      // The hub's absence is no reason to refuse what it allowed before, here or next door.
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
