// Frees space for downloads: removes parts that nobody writes, then evicts the least recently used sets, never one that is in use
// or pinned. Removes nothing when all of it would be too little: a source announces sizes as it likes.
import { rm } from "node:fs/promises";
import type { Logger } from "pino";
import type { BlobStore } from "./blobs.ts";
import type { Holders } from "./holders.ts";
import type { KeptSets } from "./kept.ts";
import { listParts, type Part } from "./parts.ts";
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

  /** `freed`: bytes that eviction would add to the free ones. */
  async function isEnough(bytes: number, freed = 0): Promise<"yes" | "quota" | "disk"> {
    if (quotaBytes !== undefined && (await blobs.list()).bytes - freed + bytes > quotaBytes) return "quota";
    return (await parts.freeBytes(blobs.folder)) + freed < bytes + reserveBytes ? "disk" : "yes";
  }

  async function refusal(verdict: "quota" | "disk", bytes: number) {
    if (verdict === "quota") return quotaFull(parts.cacheDir, bytes, quotaBytes ?? 0);
    return diskFull(parts.cacheDir, bytes + reserveBytes, await parts.freeBytes(blobs.folder));
  }

  /** Returns parts that neither a process writes nor a download is about to continue, oldest first. */
  async function freeParts(): Promise<readonly Part[]> {
    const elsewhere = await holders.assembledElsewhere();
    const all = await listParts(blobs.folder);
    return all
      .filter(({ key, isHeld }) => !isHeld && !holders.isAssembling(key) && !elsewhere.has(key))
      .sort((a, b) => a.changedAtMs - b.changedAtMs);
  }

  async function evictableBytes(): Promise<number> {
    const isHeld = await holders.heldKeys();
    const elsewhere = await holders.assembledElsewhere();
    const evictable = new Set<string>();
    const staying = new Set<string>();
    for (const { key, commit, files } of await kept.list())
      for (const { sha256 } of files) (isHeld(key, commit) ? staying : evictable).add(sha256);
    let sum = 0;
    for (const { sha256, sizeBytes } of (await blobs.list()).blobs) {
      const stays = staying.has(sha256) || holders.isAssembling(sha256) || elsewhere.has(sha256);
      if (evictable.has(sha256) && !stays) sum += sizeBytes;
    }
    return (await freeParts()).reduce((all, part) => all + part.bytes, sum);
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
    await sweep();
    if ((await isEnough(bytes)) === "yes") return;
    const best = await isEnough(bytes, await evictableBytes());
    if (best !== "yes") throw await refusal(best, bytes);
    for (const part of await freeParts()) {
      await rm(part.path, { force: true });
      log.info({ key: part.key, bytes: part.bytes }, "incomplete weights removed");
      if ((await isEnough(bytes)) === "yes") return;
    }
    for (;;) {
      const verdict = await isEnough(bytes);
      if (verdict === "yes") return;
      const sets = await kept.list();
      const isHeld = await holders.heldKeys();
      const [oldest] = sets.filter((set) => !isHeld(set.key, set.commit)).sort((a, b) => a.usedAtMs - b.usedAtMs);
      if (!oldest) throw await refusal(verdict, bytes);
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
