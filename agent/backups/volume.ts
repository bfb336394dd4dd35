// The persistent volumes of this host: `<root>/<id>/current` is a link to the one folder that is the volume's content now.
// INVARIANTS: the link changes by one rename; a folder it does not name is rubbish of a work that was cut off.
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chown, lstat, mkdir, readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { BackupError } from "./backup-error.ts";
import { syncFolder } from "./filesystem-blobs.ts";

const run = promisify(execFile);

export interface VolumeOwner {
  readonly uid: number;
  readonly gid: number;
}

export interface Volumes {
  /** For a mount: a link that is followed when the container starts. */
  pathOf(id: string): string;
  exists(id: string): Promise<boolean>;
  /** Makes an empty one of that owner where there is none. */
  ensure(id: string, owner: VolumeOwner): Promise<void>;
  /** An empty folder beside the content, gone at the next sweep unless it becomes the content. */
  stage(id: string): Promise<string>;
  /** A copy of the content; shares blocks with it where the file system can. Throws BackupError `volume_missing`. */
  copyTo(id: string, folder: string, signal: AbortSignal): Promise<void>;
  /** Makes a staged folder the content, in one step that a crash finds done or not done; the old content is left to `sweep`. */
  swap(id: string, staged: string, signal: AbortSignal): Promise<void>;
  /** Removes what work that was cut off has left. Not while work runs on the volume. */
  sweep(id: string): Promise<void>;
  list(): Promise<readonly string[]>;
  /** No-op when it is gone. */
  remove(id: string): Promise<void>;
}

const link = "current";

export function createVolumes(root: string): Volumes {
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

  const volumes: Volumes = {
    pathOf: (id) => join(folderOf(id), link),

    exists: async (id) => (await contentOf(id)) !== undefined,

    async ensure(id, owner) {
      if (await contentOf(id)) return;
      const staged = await volumes.stage(id);
      await chown(staged, owner.uid, owner.gid);
      await point(id, basename(staged));
    },

    async stage(id) {
      // Other users of the host have no business here; the container sees the content alone.
      await mkdir(root, { recursive: true, mode: 0o711 });
      await mkdir(folderOf(id), { recursive: true, mode: 0o711 });
      const staged = join(folderOf(id), fresh());
      await mkdir(staged, { mode: 0o755 });
      return staged;
    },

    async copyTo(id, folder, signal) {
      const content = await contentOf(id);
      if (!content) throw new BackupError("volume_missing", "The instance has no volume on its host yet.");
      const from = join(folderOf(id), content);
      await run("cp", ["--archive", "--reflink=auto", "--", `${from}/.`, folder], { signal });
    },

    async swap(id, staged, signal) {
      // Else a power cut could leave the new name with old zeroes behind it.
      await run("sync", ["--file-system", staged], { signal });
      signal.throwIfAborted();
      await point(id, basename(staged));
    },

    async sweep(id) {
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

    async remove(id) {
      // The link first: half a removal must not look like a volume.
      await rm(join(folderOf(id), link), { force: true });
      await rm(folderOf(id), { recursive: true, force: true });
    },
  };
  return volumes;
}

async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path)).isDirectory();
}
