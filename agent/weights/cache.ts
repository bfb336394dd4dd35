// Combines the parts of the weights cache, and adds blobs to it.
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "pino";
import { diskSpace } from "../../proto/disk-space.ts";
import { type BlobStore, createBlobStore, replaceFile } from "./blobs.ts";
import {
  type Content,
  createReadAheadBudget,
  type DownloadSource,
  download,
  type Pace,
  type ReadAhead,
  type SourceName,
  sharedSha256,
  type Verified,
} from "./download.ts";
import { createFreeSpace } from "./free-space.ts";
import { createHolders, type Holders } from "./holders.ts";
import { createKeptSets, type Kept, type KeptSets } from "./kept.ts";
import { partBytes } from "./parts.ts";
import type { Progress } from "./progress.ts";
import { createRepoFolders, type RepoFolders } from "./repo-folder.ts";

export interface CacheOptions {
  readonly cacheDir: string;
  readonly quotaBytes?: number | undefined;
  readonly freeBytes?: (folder: string) => Promise<number>;
  readonly onBytes?: (source: SourceName, bytes: number) => void;
  readonly pace?: Pace;
  readonly readAhead?: ReadAhead;
  readonly log: Logger;
}

interface Fetch {
  readonly content: Content;
  readonly sources: readonly DownloadSource[];
  readonly setting: string;
  readonly isFleeting?: boolean;
  readonly onProgress: Progress;
}

interface BlobFacts {
  readonly sha256: string;
  readonly sizeBytes: number;
}

export interface Cache {
  readonly blobs: BlobStore;
  readonly kept: KeptSets;
  readonly folders: RepoFolders;
  readonly holders: Holders;
  prepare(): Promise<void>;
  /** Throws `hub_disk_full`, before the first byte, when the missing blobs do not fit. */
  needSpace(contents: readonly Content[], extraBytes: number, signal: AbortSignal): Promise<void>;
  /** Returns a verified blob; at once if it is here. */
  bring(fetch: Fetch, signal: AbortSignal): Promise<BlobFacts>;
  /** Returns a verified file that is no blob; undefined if its result has appeared in the meantime. */
  borrow(fetch: Fetch, arrived: () => Promise<boolean>, signal: AbortSignal): Promise<Verified | undefined>;
  isWhole(set: Kept, signal: AbortSignal): Promise<boolean>;
}

export function createCache(options: CacheOptions): Cache {
  const { cacheDir, log } = options;
  const blobs = createBlobStore(cacheDir);
  const kept = createKeptSets(cacheDir);
  const folders = createRepoFolders(cacheDir, blobs);
  const holders = createHolders(join(cacheDir, "leases"));
  const freeBytes = options.freeBytes ?? (async (folder) => (await diskSpace(folder)).freeBytes);
  const { quotaBytes } = options;
  const freeSpace = createFreeSpace({ cacheDir, blobs, kept, folders, holders, quotaBytes, freeBytes, log });

  /** Returns the sha256 of content; one known only by git's hash or its version at a source is found if it was here before. */
  const digestOf = async (content: Content): Promise<string | undefined> => {
    const { sha256, gitSha1, version } = content;
    const shared = sharedSha256(content);
    const other = gitSha1 ?? version;
    if (shared !== undefined || other === undefined) return shared;
    const text = await readFile(join(cacheDir, "git", other), "utf8").catch(() => "");
    return /^[0-9a-f]{64}$/.test(text) && (sha256 ?? text) === text ? text : undefined;
  };
  const here = async (content: Content, signal: AbortSignal): Promise<BlobFacts | undefined> => {
    const sha256 = await digestOf(content);
    const sizeBytes = sha256 === undefined ? undefined : await blobs.has(sha256, signal);
    return sha256 === undefined || sizeBytes === undefined ? undefined : { sha256, sizeBytes };
  };

  const readAheadBudget = createReadAheadBudget();
  const borrow: Cache["borrow"] = ({ content, ...fetch }, arrived, signal) =>
    download(
      {
        ...fetch,
        content,
        folder: blobs.folder,
        arrived,
        onBytes: options.onBytes ?? (() => {}),
        // Space for content of known size was requested with its set.
        needSpace: async (left) => (content.sizeBytes === undefined ? freeSpace(left ?? 0) : undefined),
        pace: options.pace,
        readAhead: options.readAhead,
        readAheadBudget,
      },
      signal,
    );

  return {
    blobs,
    kept,
    folders,
    holders,
    borrow,
    async prepare() {
      await mkdir(cacheDir, { recursive: true });
      await mkdir(join(cacheDir, "git"), { recursive: true });
      await blobs.prepare();
    },
    async needSpace(contents, extraBytes, signal) {
      let missing = extraBytes;
      for (const content of contents)
        if (!(await here(content, signal)))
          missing += Math.max(0, (content.sizeBytes ?? 0) - (await partBytes(blobs.folder, content.key)));
      if (missing > 0) await freeSpace(missing);
    },
    async bring(fetch, signal) {
      for (;;) {
        const found = await here(fetch.content, signal);
        if (found) return found;
        const file = await borrow(fetch, async () => (await here(fetch.content, signal)) !== undefined, signal);
        if (!file) continue;
        await blobs.adopt(file);
        const other = fetch.content.gitSha1 ?? fetch.content.version;
        if (other !== undefined) await replaceFile(join(cacheDir, "git", other), file.sha256);
        return { sha256: file.sha256, sizeBytes: file.sizeBytes };
      }
    },
    async isWhole(set, signal) {
      for (const { sha256 } of set.files) if ((await blobs.has(sha256, signal)) === undefined) return false;
      return true;
    },
  };
}
