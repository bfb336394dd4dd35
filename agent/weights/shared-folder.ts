// Read-only folders of the operator that hold weights, such as a network file system: another agent's models folder, or a cache
// of the hub tools. Never written. Its files are copied into the cache and verified like a download, and every customer of the
// host may use them.
import * as disk from "node:fs/promises";
import { basename, join, relative } from "node:path";
import { Readable } from "node:stream";
import { type Content, type DownloadSource, sharedSha256 } from "./download.ts";
import { chooseFrom, type Found } from "./repository.ts";
import { isPlainPath, type RepositorySource } from "./source.ts";
import { WeightsError } from "./weights-error.ts";

export type SharedFolder = ReturnType<typeof createSharedFolder>;

const maxFiles = 10_000;
/** Git's hash of a small file, sha256 of a large one. */
const digestForm = /^([0-9a-f]{40}|[0-9a-f]{64})$/;

type Disk = Pick<typeof disk, "open" | "readdir" | "readFile" | "readlink" | "stat">;

const limitMs = 10_000;
const pauseMs = 60_000;
const pieceBytes = 1024 * 1024;

/** Runs one call of a folder; rejects when it takes too long, or the folder is skipped. */
type Bounded = <T>(call: () => Promise<T>) => Promise<T>;

/**
 * Calls of a network file system that hangs never end, and each holds one of the few threads of the process: calls of a folder run
 * one at a time, and after a late one the folder is skipped for a minute, and as long as that call runs.
 */
function createBounded(ms: number): Bounded {
  let last: Promise<unknown> = Promise.resolve();
  let skippedUntilMs = 0;
  let isStuck = false;

  async function run<T>(call: () => Promise<T>): Promise<T> {
    if (isStuck || performance.now() < skippedUntilMs) throw new Error("the folder does not reply");
    const running = call();
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      isStuck = true;
      skippedUntilMs = performance.now() + pauseMs;
      const ended = () => {
        isStuck = false;
      };
      running.then(ended, ended);
      reject(new Error(`the folder did not reply within ${ms} ms`));
    }, ms);
    try {
      return await Promise.race([running, promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  return (call) => {
    const mine = last.then(() => run(call));
    last = mine.catch(() => {});
    return mine;
  };
}

/** Empty: no folder is set. `calls`, `ms`: of tests. */
export function createSharedFolder(folders: readonly string[], calls: Disk = disk, ms = limitMs) {
  const bounds = new Map(folders.map((folder) => [folder, createBounded(ms)]));
  const boundedIn = (folder: string): Bounded => bounds.get(folder) as Bounded;
  const repoFolder = (folder: string, repo: string): string => join(folder, `models--${repo.replaceAll("/", "--")}`);

  /** Files of a cache of the hub tools: their links name the digest of each. */
  async function listed(bounded: Bounded, root: string, commit: string) {
    const snapshot = join(root, "snapshots", commit);
    const entries = await bounded(() => calls.readdir(snapshot, { recursive: true, withFileTypes: true })).catch(
      () => [],
    );
    const links = entries.filter((entry) => entry.isSymbolicLink()).slice(0, maxFiles);
    const files = links.map(async ({ parentPath, name }) => {
      const at = join(parentPath, name);
      const path = relative(snapshot, at);
      const digest = basename(await bounded(() => calls.readlink(at)).catch(() => ""));
      const seen = await bounded(() => calls.stat(at)).catch(() => undefined);
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
          const bounded = boundedIn(folder);
          const seen = await bounded(() => calls.stat(path)).catch(() => undefined);
          if (seen?.isFile() && seen.size === sizeBytes) return fileSource(calls, bounded, path, sizeBytes);
        }
      return undefined;
    },
    /** A hub repository's files as a folder lists them, for the time that the hub is unavailable. */
    async found(source: RepositorySource): Promise<Found | undefined> {
      if (source.kind !== "hub") return undefined;
      for (const folder of folders) {
        const root = repoFolder(folder, source.repo);
        const bounded = boundedIn(folder);
        const named = await bounded(() => calls.readFile(join(root, "refs", source.revision), "utf8")).catch(
          () => source.revision,
        );
        const commit = named.trim();
        if (!/^[0-9a-f]{40}$/.test(commit)) continue;
        const all = await listed(bounded, root, commit);
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

async function* pieces(calls: Disk, bounded: Bounded, path: string, from: number): AsyncGenerator<Buffer> {
  let opening: ReturnType<Disk["open"]> | undefined;
  const file = await bounded(() => {
    opening = calls.open(path);
    return opening;
  }).catch((error) => {
    opening?.then((late) => late.close()).catch(() => {});
    throw error;
  });
  try {
    for (let at = from; ; ) {
      const piece = Buffer.allocUnsafe(pieceBytes);
      const { bytesRead } = await bounded(() => file.read(piece, 0, pieceBytes, at));
      if (bytesRead === 0) return;
      at += bytesRead;
      yield piece.subarray(0, bytesRead);
    }
  } finally {
    // A close waits for a read that hangs.
    void file.close().catch(() => {});
  }
}

function fileSource(calls: Disk, bounded: Bounded, path: string, sizeBytes: number): DownloadSource {
  return {
    name: "shared",
    async open({ from }) {
      const headers: Readonly<Record<string, string>> = {
        "content-length": `${sizeBytes - from}`,
        "content-range": `bytes ${from}-${sizeBytes - 1}/${sizeBytes}`,
      };
      return {
        status: from > 0 ? 206 : 200,
        header: (name) => headers[name],
        body: Readable.from(pieces(calls, bounded, path, from), { objectMode: false }),
        url: new URL("file:///shared"),
      };
    },
  };
}

function gone(folder: string): WeightsError {
  const text = `The shared folder ${folder} no longer provides the weights. The download is retried automatically.`;
  return new WeightsError("hub_unreachable", text, { retryable: true });
}
