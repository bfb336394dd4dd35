// Cache in the layout of the hub tools: models--org--name/{blobs/<etag>, refs/<branch>, snapshots/<commit>/<path>}. Its files
// are links to the verified blobs.
import { createHash } from "node:crypto";
import { mkdir, readdir, rm, rmdir } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import { type BlobStore, replaceFile } from "./blobs.ts";
import type { Kept } from "./kept.ts";

export type RepoFolders = ReturnType<typeof createRepoFolders>;

export function createRepoFolders(cacheDir: string, blobs: BlobStore) {
  const root = (repo: string): string => join(cacheDir, `models--${folderName(repo)}`);
  const snapshot = (kept: Kept): string => join(root(kept.repo), "snapshots", kept.commit);

  return {
    /** Links a set whose blobs are all present; returns the path for the engine. */
    async place(kept: Kept) {
      const [only] = kept.files;
      if (kept.repo.startsWith("pypi:") && only) return blobs.named(only.sha256, posix.basename(only.path));
      for (const file of kept.files) {
        await blobs.show(file.sha256, join(root(kept.repo), "blobs", file.sha256));
        await blobs.show(file.sha256, join(snapshot(kept), file.path));
      }
      if (kept.revision !== "" && kept.revision !== kept.commit) {
        const ref = join(root(kept.repo), "refs", kept.revision);
        await mkdir(dirname(ref), { recursive: true });
        await replaceFile(ref, kept.commit);
      }
      return join(snapshot(kept), kept.entry);
    },
    async remove(kept: Kept, others: readonly Kept[]) {
      const same = others.filter(({ repo }) => repo === kept.repo);
      const isShown = (file: { readonly path: string }): boolean =>
        same.some(({ commit, files }) => commit === kept.commit && files.some(({ path }) => path === file.path));
      const isHeld = (sha256: string): boolean =>
        same.some(({ files }) => files.some((file) => file.sha256 === sha256));
      for (const file of kept.files) {
        if (!isShown(file)) await rm(join(snapshot(kept), file.path), { force: true });
        if (!isHeld(file.sha256)) await rm(join(root(kept.repo), "blobs", file.sha256), { force: true });
      }
      await removeEmpty(snapshot(kept));
      if (same.length === 0 && !kept.repo.startsWith("pypi:"))
        await rm(root(kept.repo), { recursive: true, force: true });
    },
  };
}

/** As the hub tools name it; an address with a scheme may be too long for a name or have other characters. */
function folderName(repo: string): string {
  const name = repo.replaceAll("/", "--");
  if (!repo.includes("://")) return name;
  const digest = createHash("sha256").update(repo).digest("hex").slice(0, 16);
  return `${name.replace(/[^\w.-]+/g, "-").slice(0, 100)}-${digest}`;
}

async function removeEmpty(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => []))
    if (entry.isDirectory()) await removeEmpty(join(folder, entry.name));
  await rmdir(folder).catch(() => {});
}
