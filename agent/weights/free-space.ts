// Frees space for downloads: evicts the least recently used sets, never one that is in use or pinned.
import type { Logger } from "pino";
import type { BlobStore } from "./blobs.ts";
import type { Holders } from "./holders.ts";
import type { KeptSets } from "./kept.ts";
import type { RepoFolders } from "./repo-folder.ts";
import { diskFull, quotaFull } from "./weights-error.ts";

interface FreeSpaceParts {
  readonly cacheDir: string;
  readonly blobs: BlobStore;
  readonly kept: KeptSets;
  readonly folders: RepoFolders;
  readonly holders: Holders;
  readonly quotaBytes: number | undefined;
  readonly freeBytes: (folder: string) => Promise<number>;
  readonly log: Logger;
}

/** Free space that a download leaves for other users of the disk. */
const reserveBytes = 64 * 1024 * 1024;
/** A blob that no set names may belong to a download of another process that is about to name it. */
const orphanMs = 3600_000;

/** The returned function frees the given number of bytes; it throws `hub_disk_full` when no more may be evicted. Calls run one at a time. */
export function createFreeSpace(parts: FreeSpaceParts): (bytes: number) => Promise<void> {
  const { blobs, kept, folders, holders, quotaBytes, log } = parts;
  let last: Promise<void> = Promise.resolve();

  async function isEnough(bytes: number): Promise<"yes" | "quota" | "disk"> {
    if (quotaBytes !== undefined && (await blobs.list()).bytes + bytes > quotaBytes) return "quota";
    return (await parts.freeBytes(blobs.folder)) < bytes + reserveBytes ? "disk" : "yes";
  }

  async function sweep(): Promise<void> {
    const named = new Set((await kept.list()).flatMap(({ files }) => files.map(({ sha256 }) => sha256)));
    const elsewhere = await holders.assembledElsewhere();
    for (const blob of (await blobs.list()).blobs) {
      const isYoung = Date.now() - blob.changedAtMs < orphanMs && !evicted.has(blob.sha256);
      const isWanted = named.has(blob.sha256) || holders.isAssembling(blob.sha256) || elsewhere.has(blob.sha256);
      if (!isWanted && !isYoung) await blobs.remove(blob.sha256);
    }
  }
  const evicted = new Set<string>();

  async function make(bytes: number): Promise<void> {
    if (quotaBytes !== undefined && bytes > quotaBytes) throw quotaFull(parts.cacheDir, bytes, quotaBytes);
    await sweep();
    for (;;) {
      const verdict = await isEnough(bytes);
      if (verdict === "yes") return;
      const sets = await kept.list();
      const isHeld = await holders.heldKeys();
      const [oldest] = sets.filter((set) => !isHeld(set.key, set.commit)).sort((a, b) => a.usedAtMs - b.usedAtMs);
      if (!oldest) {
        if (verdict === "quota") throw quotaFull(parts.cacheDir, bytes, quotaBytes ?? 0);
        throw diskFull(parts.cacheDir, bytes + reserveBytes, await parts.freeBytes(blobs.folder));
      }
      const others = sets.filter((set) => set !== oldest);
      await kept.forget(oldest);
      await folders.remove(oldest, others);
      for (const { sha256 } of oldest.files) evicted.add(sha256);
      await sweep();
      evicted.clear();
      log.info({ repo: oldest.repo, commit: oldest.commit, usedAtMs: Math.round(oldest.usedAtMs) }, "weights evicted");
    }
  }

  return (bytes) => {
    const mine = last.then(() => make(bytes));
    last = mine.catch(() => {});
    return mine;
  };
}
