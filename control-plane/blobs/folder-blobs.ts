// Files as files below one folder, which several control planes may share over a network file system.
import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { BlobMissing, type BlobStore } from "../files/blobs.ts";
import { FileStoreAway } from "../files/errors.ts";
import { checkKey } from "./key.ts";

export function createFolderBlobs(folder: string): BlobStore {
  const pathOf = (key: string) => join(folder, checkKey(key));
  /** Under a name that follows from the key, so that what a killed upload left is found when the key is removed. */
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
        throw told(error);
      }
    },

    async get(key, signal) {
      const handle = await open(pathOf(key)).catch((error: NodeJS.ErrnoException) => {
        throw error.code === "ENOENT" ? new BlobMissing(key, { cause: error }) : told(error);
      });
      return createReadStream("", { fd: handle, ...(signal ? { signal } : {}) });
    },

    async remove(key) {
      const path = pathOf(key);
      try {
        for (const name of [path, partOf(path)]) await rm(name, { force: true });
      } catch (error) {
        throw told(error);
      }
    },
  };
}

/** A rename is durable once its folder is. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** What the file system says about itself; errors of the body come through as they are. */
function told(error: unknown): unknown {
  const { code, syscall } = error as NodeJS.ErrnoException;
  return syscall !== undefined && code?.startsWith("E") ? new FileStoreAway(error) : error;
}
