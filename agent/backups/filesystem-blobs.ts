import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { diskSpace } from "../../proto/disk-space.ts";
import { BackupError } from "./backup-error.ts";
import { type BlobStore, checkKey } from "./blob-store.ts";

/** Space that the host and its spool need to continue. */
const reserveBytes = 1024 ** 3;

/**
 * Backups as files below `folder`, which may be a network file system that several hosts share: `owner` keeps their
 * unfinished files apart.
 */
export function createFilesystemBlobs(folder: string, owner: string, keepFree = reserveBytes): BlobStore {
  const pathOf = (key: string) => join(folder, checkKey(key));
  const partOf = `.part-${owner}`;
  return {
    name: "filesystem",

    async put(key, body, signal) {
      const path = pathOf(key);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      if ((await diskSpace(dirname(path))).freeBytes < keepFree) {
        // The writer must not wait for a reader that never comes.
        body.destroy();
        throw new BackupError("no_space", "The host has no disk space left for backups; nothing was changed.");
      }
      const part = `${path}${partOf}`;
      try {
        await pipeline(body, createWriteStream(part, { mode: 0o600, flush: true }), { signal });
        await rename(part, path);
        await syncFolder(dirname(path));
      } catch (error) {
        await rm(part, { force: true });
        throw error;
      }
    },

    async get(key, signal) {
      const handle = await open(pathOf(key)).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
        throw new BackupError("backup_missing", "The backup is not in the store any more.", { cause: error });
      });
      return createReadStream("", { fd: handle, signal });
    },

    async remove(key) {
      await rm(pathOf(key), { force: true });
    },

    async sweep(prefix) {
      const inside = pathOf(prefix);
      const names = await readdir(inside).catch(() => []);
      for (const name of names) if (name.endsWith(partOf)) await rm(join(inside, basename(name)), { force: true });
    },
  };
}

/** A rename is durable once its folder is. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
