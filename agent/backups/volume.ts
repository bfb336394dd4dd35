// The persistent volumes of this host: `<root>/<id>/current` is a link to the folder with the volume's current content.
// INVARIANTS: the link changes by one rename; any other folder is left over from an interrupted operation.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chown, lstat, mkdir, readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { BackupError } from "./backup-error.ts";
import { syncFolder } from "./filesystem-blobs.ts";

const run = promisify(execFile);

interface VolumeOwner {
  readonly uid: number;
  readonly gid: number;
}

export type Volumes = ReturnType<typeof createVolumes>;

const link = "current";

export function createVolumes(root: string) {
  const folderOf = (id: string): string => {
    if (!/^[\w-]{1,80}$/.test(id)) throw new Error(`no id of a volume: ${id.slice(0, 80)}`);
    return join(root, id);
  };
  const contentOf = (id: string): Promise<string | undefined> =>
    readlink(join(folderOf(id), link)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
      return undefined;
    });
  const fresh = () => `data-${randomBytes(8).toString("hex")}`;

  async function point(id: string, content: string): Promise<void> {
    const folder = folderOf(id);
    const next = join(folder, `${link}.next`);
    await rm(next, { force: true });
    await symlink(content, next);
    await rename(next, join(folder, link));
    await syncFolder(folder);
  }

  const volumes = {
    /** For a mount: a link that is followed when the container starts. */
    pathOf: (id: string) => join(folderOf(id), link),

    exists: async (id: string) => (await contentOf(id)) !== undefined,

    async ensure(id: string, owner: VolumeOwner) {
      if (await contentOf(id)) return;
      const staged = await volumes.stage(id);
      await chown(staged, owner.uid, owner.gid);
      await point(id, basename(staged));
    },

    /** Creates an empty folder beside the content; the next sweep removes it unless it becomes the content. */
    async stage(id: string) {
      // No access for other users of the host; the container sees only the content.
      await mkdir(root, { recursive: true, mode: 0o711 });
      await mkdir(folderOf(id), { recursive: true, mode: 0o711 });
      const staged = join(folderOf(id), fresh());
      await mkdir(staged, { mode: 0o755 });
      return staged;
    },

    /** Copies the content; shares blocks if the file system supports it. Throws BackupError `volume_missing`. */
    async copyTo(id: string, folder: string, signal: AbortSignal) {
      const content = await contentOf(id);
      if (!content) throw new BackupError("volume_missing", "The instance has no volume on its host yet.");
      const from = join(folderOf(id), content);
      await run("cp", ["--archive", "--reflink=auto", "--", `${from}/.`, folder], { signal });
    },

    /** Makes a staged folder the content, atomically; `sweep` removes the old content. */
    async swap(id: string, staged: string, signal: AbortSignal) {
      // Otherwise a power failure could leave the new link with empty files.
      await run("sync", ["--file-system", staged], { signal });
      signal.throwIfAborted();
      await point(id, basename(staged));
    },

    /** Removes remains of interrupted operations. Do not call it during an operation on the volume. */
    async sweep(id: string) {
      const content = await contentOf(id);
      const names = await readdir(folderOf(id)).catch(() => []);
      for (const name of names)
        if (name !== link && name !== content) await rm(join(folderOf(id), name), { recursive: true, force: true });
    },

    async list() {
      const names = await readdir(root).catch(() => []);
      const found = await Promise.all(names.map(async (name) => ((await isFolder(join(root, name))) ? [name] : [])));
      return found.flat();
    },

    async remove(id: string) {
      // Remove the link first: a partial removal must not look like a volume.
      await rm(join(folderOf(id), link), { force: true });
      await rm(folderOf(id), { recursive: true, force: true });
    },
  };
  return volumes;
}

async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path)).isDirectory();
}
