// Stores blobs as files below one folder, which several control planes may share over a network file system.
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { BlobMissing, type BlobStore, checkKey } from "../files/blobs.ts";
import { fileStoreUnavailable } from "../files/errors.ts";

export function createFolderBlobs(folder: string): BlobStore {
  const pathOf = (key: string) => join(folder, checkKey(key));
  /**
   * The partial file's name is derived from the key, so that removing the key also removes the remains of a killed upload.
   */
  const partOf = (path: string) => `${path}.part`;
  return {
    name: "folder",

    async put(key, body, signal) {
      const path = pathOf(key);
      const part = partOf(path);
      try {
        await mkdir(dirname(path), { recursive: true, mode: 0o700 });
        await pipeline(body, createWriteStream(part, { mode: 0o600, flush: true }), { signal });
        await rename(part, path);
        await syncFolder(dirname(path));
      } catch (error) {
        await rm(part, { force: true }).catch(() => {});
        throw wrapped(error);
      }
    },

    async get(key, signal) {
      const handle = await open(pathOf(key)).catch((error: NodeJS.ErrnoException) => {
        throw error.code === "ENOENT" ? new BlobMissing(key, { cause: error }) : wrapped(error);
      });
      return createReadStream("", { fd: handle, ...(signal ? { signal } : {}) });
    },

    async remove(key) {
      const path = pathOf(key);
      try {
        for (const name of [path, partOf(path)]) await rm(name, { force: true });
      } catch (error) {
        throw wrapped(error);
      }
    },
  };
}

/** A rename is durable once its folder is synced. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Wraps errors of the file system; errors of the body pass through unchanged. */
function wrapped(error: unknown): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return syscall !== undefined && code?.startsWith("E") ? fileStoreUnavailable(error) : error;
}
