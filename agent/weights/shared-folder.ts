// Read-only folders of the operator that hold weights, such as a network file system: another agent's models folder, or a cache
// of the hub tools. Never written. Its files are copied into the cache and verified like a download, and every customer of the
// host may use them.
import { createReadStream } from "node:fs";
import { readdir, readFile, readlink, stat } from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { type Content, type DownloadSource, sharedSha256 } from "./download.ts";
import { chooseFrom, type Found } from "./repository.ts";
import { isPlainPath, type RepositorySource } from "./source.ts";
import { WeightsError } from "./weights-error.ts";

export type SharedFolder = ReturnType<typeof createSharedFolder>;

const maxFiles = 10_000;
/** Git's hash of a small file, sha256 of a large one. */
const digestForm = /^([0-9a-f]{40}|[0-9a-f]{64})$/;

/** Empty: no folder is set. */
export function createSharedFolder(folders: readonly string[]) {
  const repoFolder = (folder: string, repo: string): string => join(folder, `models--${repo.replaceAll("/", "--")}`);

  /** Files of a cache of the hub tools: their links name the digest of each. */
  async function listed(root: string, commit: string) {
    const snapshot = join(root, "snapshots", commit);
    const entries = await readdir(snapshot, { recursive: true, withFileTypes: true }).catch(() => []);
    const links = entries.filter((entry) => entry.isSymbolicLink()).slice(0, maxFiles);
    const files = links.map(async ({ parentPath, name }) => {
      const at = join(parentPath, name);
      const path = relative(snapshot, at);
      const digest = basename(await readlink(at));
      const seen = await stat(at).catch(() => undefined);
      if (!seen?.isFile() || !isPlainPath(path) || !digestForm.test(digest)) return [];
      return [{ path, digest, sizeBytes: seen.size }];
    });
    return (await Promise.all(files)).flat();
  }

  return {
    /** A source of this content; undefined: no folder has it. */
    async source(repo: string, content: Content): Promise<DownloadSource | undefined> {
      const { gitSha1, sizeBytes } = content;
      const digest = sharedSha256(content) ?? gitSha1;
      if (digest === undefined || sizeBytes === undefined) return undefined;
      for (const folder of folders)
        for (const path of [join(folder, "blobs", digest), join(repoFolder(folder, repo), "blobs", digest)]) {
          const seen = await stat(path).catch(() => undefined);
          if (seen?.isFile() && seen.size === sizeBytes) return fileSource(path, sizeBytes);
        }
      return undefined;
    },
    /** A hub repository's files as a folder lists them, for the time that the hub is unavailable. */
    async found(source: RepositorySource): Promise<Found | undefined> {
      if (source.kind !== "hub") return undefined;
      for (const folder of folders) {
        const root = repoFolder(folder, source.repo);
        const named = await readFile(join(root, "refs", source.revision), "utf8").catch(() => source.revision);
        const commit = named.trim();
        if (!/^[0-9a-f]{40}$/.test(commit)) continue;
        const all = await listed(root, commit);
        if (all.length === 0) continue;
        const { chosen, entry } = chooseFrom(source, all);
        const files = chosen.map(({ path, digest, sizeBytes }) => {
          const isSha256 = digest.length === 64;
          const [sha256, gitSha1] = isSha256 ? [digest, undefined] : [undefined, digest];
          return {
            path,
            content: { key: digest, sha256, gitSha1, sizeBytes },
            open: async () => Promise.reject(gone(folder)),
          };
        });
        return { commit, files, entry };
      }
      return undefined;
    },
  };
}

function fileSource(path: string, sizeBytes: number): DownloadSource {
  return {
    name: "shared",
    async open({ from }, signal) {
      const headers: Readonly<Record<string, string>> = {
        "content-length": `${sizeBytes - from}`,
        "content-range": `bytes ${from}-${sizeBytes - 1}/${sizeBytes}`,
      };
      return {
        status: from > 0 ? 206 : 200,
        header: (name) => headers[name],
        body: createReadStream(path, { start: from, signal, highWaterMark: 1024 * 1024 }),
        url: new URL("file:///shared"),
      };
    },
  };
}

function gone(folder: string): WeightsError {
  const text = `The shared folder ${folder} no longer provides the weights. The download is retried automatically.`;
  return new WeightsError("hub_unreachable", text, { retryable: true });
}
