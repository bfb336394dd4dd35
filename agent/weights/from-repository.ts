// Fetches a set of a repository: its source lists the files, each blob comes from the nearest holder (the operator's shared folder,
// a neighbour, the source), and the complete set is recorded.

import { readFile } from "node:fs/promises";
import type { Logger } from "pino";
import type { Cache } from "./cache.ts";
import { unsupported } from "./choose-file.ts";
import { type DownloadSource, sharedSha256 } from "./download.ts";
import type { Kept, KeptFile } from "./kept.ts";
import { originsSetting } from "./named-web.ts";
import type { BlobHolder, Neighbourhood } from "./neighbours.ts";
import type { Progress } from "./progress.ts";
import { type Found, isUnavailable, type Resolve } from "./repository.ts";
import type { SharedFolder } from "./shared-folder.ts";
import type { RepositorySource, SourceOfKind } from "./source.ts";
import { WeightsError } from "./weights-error.ts";

type Kind = RepositorySource["kind"];

interface RepositoryParts {
  readonly cache: Cache;
  readonly neighbourhood: Neighbourhood;
  readonly shared: SharedFolder;
  readonly resolve: { readonly [K in Kind]: Resolve<SourceOfKind<K>> };
  readonly log: Logger;
}

/** Setting that leads to another server, for errors of a connection. */
const settings: Readonly<Record<Kind, string>> = {
  hub: "HF_ENDPOINT",
  s3: "STOKER_WEIGHTS_S3_ENDPOINT",
  oci: originsSetting,
  modelscope: "MODELSCOPE_ENDPOINT",
};

/** Sources on servers that customers name. */
const customerKinds: ReadonlySet<Kind> = new Set(["s3", "oci"]);

/** Smaller files are not requested from neighbours. */
const worthAskingBytes = 1024 * 1024;

type FetchRepository = (
  key: string,
  source: RepositorySource,
  onProgress: Progress,
  signal: AbortSignal,
) => Promise<Kept>;

export function createFetchRepository(parts: RepositoryParts): FetchRepository {
  const { cache, neighbourhood, shared, log } = parts;

  const resolve = <K extends Kind>(source: SourceOfKind<K>, signal: AbortSignal): Promise<Found> =>
    (parts.resolve[source.kind as K] as Resolve<SourceOfKind<K>>)(source, signal);

  /** Without a reply from the source, a neighbour that has the same set under the same token lists its files. */
  async function foundNearby(key: string, source: RepositorySource, signal: AbortSignal): Promise<Found | undefined> {
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

  /** Uses other copies of content whose announced digest a neighbour computed for the same version; the digest verifies them. */
  async function withDigests(key: string, source: RepositorySource, found: Found, signal: AbortSignal): Promise<Found> {
    if (found.files.every(({ content }) => content.version === undefined || content.sha256 === undefined)) return found;
    const set = await neighbourhood.recall(key, source, signal);
    if (set?.commit !== found.commit) return found;
    const files = found.files.map((file) => {
      const { version: _, ...content } = file.content;
      // A neighbour must not choose the bytes of content without an announced digest.
      const isKnown = set.files.some(({ path, sha256 }) => path === file.path && sha256 === content.sha256);
      // The neighbour received these bytes from this source with this token. The key stays: only this source may delay it.
      return isKnown ? { ...file, content } : file;
    });
    return { ...found, files };
  }

  /** Fetches small files first; they can refuse the large ones. */
  async function collect(
    key: string,
    source: RepositorySource,
    found: Found & { readonly isUnconfirmed?: true },
    near: readonly BlobHolder[],
    onProgress: Progress,
    signal: AbortSignal,
  ): Promise<Kept> {
    const { repo, revision } = source;
    const isFleeting = customerKinds.has(source.kind);
    const contents = found.files.map(({ content }) => content);
    const doneAssembling = cache.holders.assemble(
      key,
      // Keys protect parts that this download continues.
      contents.flatMap(({ key, sha256 }) => (sha256 === undefined || sha256 === key ? [key] : [key, sha256])),
    );
    try {
      await cache.needSpace(contents, 0, signal);
      const total = contents.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? Number.NaN), 0);
      const files: KeptFile[] = [];
      let before = 0;
      for (const { path, content, open } of found.files) {
        const digest = sharedSha256(content);
        const nearer = digest === undefined ? [] : near.map((one) => one.source(digest));
        const here = await shared.source(repo, content);
        const origin: DownloadSource = { name: source.kind, open, hasRanges: true };
        const report: Progress = (done, ofFile) => {
          const ofAll = Number.isNaN(total) ? (found.files.length === 1 ? ofFile : 0) : total;
          onProgress(before + done, ofAll);
        };
        const sources = [...(here ? [here] : []), ...nearer, origin];
        const fetch = { content, sources, setting: settings[source.kind], onProgress: report, isFleeting };
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

  async function nearest(repo: string, found: Found, signal: AbortSignal): Promise<readonly BlobHolder[]> {
    const [largest] = [...found.files].sort((a, b) => (b.content.sizeBytes ?? 0) - (a.content.sizeBytes ?? 0));
    const sizeBytes = largest?.content.sizeBytes ?? 0;
    const sha256 = largest && sharedSha256(largest.content);
    if (sha256 === undefined || sizeBytes < worthAskingBytes) return [];
    if ((await cache.blobs.has(sha256, signal)) !== undefined) return [];
    return neighbourhood.holders(sha256, repo, signal);
  }

  return async (key, source, onProgress, signal) => {
    const last = await cache.kept.recall(key);
    const isHere = last !== undefined && (await cache.isWhole(last, signal));
    if (isHere && last.commit === source.revision && !last.isUnconfirmed) return last;
    let found: Found & { readonly isUnconfirmed?: true };
    try {
      found = await resolve(source, signal);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      // While the source is unavailable, use a set that it allowed before, here or on a neighbour, or the operator's copy.
      if (isHere) return last;
      const nearby = (await foundNearby(key, source, signal)) ?? (await shared.found(source));
      if (!nearby) throw error;
      found = { ...nearby, isUnconfirmed: true };
    }
    if (isHere && last.commit === found.commit && !last.isUnconfirmed) return last;
    found = await withDigests(key, source, found, signal);
    return collect(key, source, found, await nearest(source.repo, found, signal), onProgress, signal);
  };
}

function lost(repo: string): WeightsError {
  const text = `The source of ${repo} is unavailable, and the host or folder that has a copy did not provide it. The download is retried automatically.`;
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
