// Content-addressed store: blobs/<sha256> holds verified bytes, files/<sha256>/<name> links them under their own name, because
// engines depend on the extension. A marker beside the blob states that these bytes were hashed.
import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { link, mkdir, open, readdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import type { Verified } from "./download.ts";

export type BlobStore = ReturnType<typeof createBlobStore>;

interface StoredBlob {
  readonly sha256: string;
  /** With its marker. */
  readonly sizeBytes: number;
  readonly changedAtMs: number;
}

export function createBlobStore(cacheDir: string) {
  const folder = join(cacheDir, "blobs");
  const pathOf = (sha256: string): string => join(folder, sha256);

  async function mark(sha256: string): Promise<void> {
    const { size, mtimeMs } = await stat(pathOf(sha256));
    await replaceFile(`${pathOf(sha256)}.verified`, JSON.stringify({ size, mtimeMs }));
  }

  return {
    /** Folder of incomplete files, on the same file system as the blobs. */
    folder,
    pathOf,
    async prepare() {
      await mkdir(folder, { recursive: true });
    },
    /** Returns the size of a present and verified blob. Hashes it only if the marker is missing. */
    async has(sha256: string, signal: AbortSignal) {
      const found = await stat(pathOf(sha256)).catch(() => undefined);
      if (!found?.isFile()) return undefined;
      const marker = await readFile(`${pathOf(sha256)}.verified`, "utf8").catch(() => "");
      if (marker === JSON.stringify({ size: found.size, mtimeMs: found.mtimeMs })) return found.size;
      if ((await hashOf(pathOf(sha256), signal)) !== sha256) {
        await rm(pathOf(sha256), { force: true });
        return undefined;
      }
      await mark(sha256);
      return found.size;
    },
    /** Moves a verified file in. A blob that another process added in the meantime is equivalent. */
    async adopt(file: Verified) {
      try {
        await rename(file.path, pathOf(file.sha256));
      } catch (error) {
        if (!(await stat(pathOf(file.sha256)).catch(() => undefined))?.isFile()) throw error;
      }
      await syncFolder(folder);
      await mark(file.sha256);
    },
    async named(sha256: string, name: string) {
      const path = join(cacheDir, "files", sha256, name);
      await show(sha256, path);
      return path;
    },
    /** Links the blob at another path of the same file system. */
    show,
    async list() {
      const found: StoredBlob[] = [];
      const markers = new Map<string, number>();
      let bytes = 0;
      for (const name of await readdir(folder).catch(() => [])) {
        const seen = await stat(join(folder, name)).catch(() => undefined);
        bytes += seen?.size ?? 0;
        if (name.endsWith(".verified")) markers.set(name.slice(0, 64), seen?.size ?? 0);
        if (seen?.isFile() && /^[0-9a-f]{64}$/.test(name))
          found.push({ sha256: name, sizeBytes: seen.size, changedAtMs: seen.ctimeMs });
      }
      const blobs = found.map((one) => ({ ...one, sizeBytes: one.sizeBytes + (markers.get(one.sha256) ?? 0) }));
      return { blobs, bytes };
    },
    async remove(sha256: string) {
      await rm(join(cacheDir, "files", sha256), { recursive: true, force: true });
      await rm(`${pathOf(sha256)}.verified`, { force: true });
      await rm(pathOf(sha256), { force: true });
    },
  };

  async function show(sha256: string, path: string): Promise<void> {
    const parent = dirname(path);
    await mkdir(parent, { recursive: true });
    const [blob, shown] = await Promise.all([stat(pathOf(sha256)), stat(path).catch(() => undefined)]);
    if (shown?.ino === blob.ino && shown.dev === blob.dev) return;
    // A hard link can be mounted into a container without its folder; not every file system supports them.
    const fresh = join(parent, `.${randomBytes(4).toString("hex")}`);
    await link(pathOf(sha256), fresh).catch(() => symlink(relative(parent, pathOf(sha256)), fresh));
    await rename(fresh, path);
  }
}

export async function hashOf(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { signal, highWaterMark: 1024 * 1024 }))
    hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** Writes atomically, also across a power failure. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const fresh = `${path}.${randomBytes(4).toString("hex")}`;
  await writeFile(fresh, text, { flush: true });
  await rename(fresh, path);
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  await handle.sync().finally(() => handle.close());
}
