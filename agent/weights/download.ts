// Streams one file to disk: resumes a partial file, continues after a cut, and returns only verified bytes.
import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { isDiskFull } from "../../proto/disk-space.ts";
import { claimPart, openPartFile, type PartFile, partLeaseMs, releasePart, renewPart } from "./parts.ts";
import { isFileSize } from "./source.ts";
import type { WebAnswer } from "./web.ts";
import { diskFull, unreachableHost, WeightsError } from "./weights-error.ts";

export interface Content {
  /** Names the bytes, in hexadecimal: equal keys are equal content. A server that a customer names cannot choose another's key. */
  readonly key: string;
  readonly sha256: string | undefined;
  /** Git's hash of the file as a blob, if the hub sends no sha256; `sizeBytes` is then known. */
  readonly gitSha1: string | undefined;
  readonly sizeBytes: number | undefined;
  /** The content is unknown: accept the received bytes. */
  readonly isUnannounced?: boolean;
  /**
   * Names the bytes at one source, in hexadecimal, where an announced digest is missing or proves no access to its bytes. Only
   * `sha256` verifies them; without it, received bytes of the right size are accepted.
   */
  readonly version?: string;
}

/**
 * Digest under which copies from other sources may be used; undefined: only this source may send the content. A customer's own
 * server can announce the digest of a file that its owner may not read.
 */
export function sharedSha256({ sha256, version }: Content): string | undefined {
  return version === undefined ? sha256 : undefined;
}

export type SourceName = "hub" | "registry" | "peer" | "url" | "s3" | "oci" | "modelscope" | "shared";

export interface ByteRange {
  readonly from: number;
  /** Exclusive; undefined: to the end. */
  readonly until?: number | undefined;
  /** ETag of this source's last reply. */
  readonly tag: string | undefined;
}

/** Headers of a request for a part of a file; none for all of it. */
export function rangeHeaders({ from, until, tag }: ByteRange): Record<string, string> {
  if (from === 0 && until === undefined) return {};
  const range = `bytes=${from}-${until === undefined ? "" : until - 1}`;
  return tag === undefined || from === 0 ? { range } : { range, "if-range": tag };
}

export interface DownloadSource {
  readonly name: SourceName;
  /** Several ranges at a time are faster than one stream: a distant source limits each connection. */
  readonly hasRanges?: boolean;
  /** Resolves for 200, 206 or 416; throws WeightsError otherwise. */
  open(range: ByteRange, signal: AbortSignal): Promise<WebAnswer>;
}

interface DownloadRequest {
  readonly folder: string;
  readonly content: Content;
  /** At least one source, in order of preference. Only failures of the last one are reported: the others are optional. */
  readonly sources: readonly DownloadSource[];
  /** Setting that names another source, for the error text. */
  readonly setting: string;
  /** Throws when the remaining bytes do not fit; `left` is undefined while unknown. */
  needSpace(left: number | undefined): Promise<void>;
  /** Returns true if another download added this content in the meantime. */
  arrived(): Promise<boolean>;
  /** `total` is 0 while it is unknown. */
  onProgress(done: number, total: number): void;
  onBytes(source: SourceName, bytes: number): void;
  readonly pace?: Pace | undefined;
  readonly readAhead?: ReadAhead | undefined;
  readonly readAheadBudget: ReadAheadBudget;
  /** Deletes the partial file of any failed download: an untrusted sender must not fill the disk with parts. */
  readonly isFleeting?: boolean | undefined;
}

/** A source that sends fewer bytes counts as stalled. */
export interface Pace {
  readonly bytes: number;
  readonly perMs: number;
}

/** Ranges of a large file are requested at the same time and written in order; memory: `count` times `bytes`, within the budget of all downloads. */
export interface ReadAhead {
  readonly bytes: number;
  readonly count: number;
  /** Files with less to fetch are read as one stream. */
  readonly minBytes: number;
}

export type ReadAheadBudget = ReturnType<typeof createReadAheadBudget>;

/** Memory of requested ranges, in bytes, over all downloads. Nothing waits for it: without space a file is read as one stream. */
export function createReadAheadBudget(maxBytes = 192 * 1024 ** 2) {
  let left = maxBytes;
  return {
    take(bytes: number): boolean {
      if (bytes > left) return false;
      left -= bytes;
      return true;
    },
    give(bytes: number): void {
      left += bytes;
    },
  };
}

export interface Verified {
  readonly path: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

const retryDelaysMs = [500, 1000, 2000, 4000];
const lookEveryMs = 250;
const defaultPace: Pace = { bytes: 64 * 1024, perMs: 15_000 };
const defaultReadAhead: ReadAhead = { bytes: 8 * 1024 ** 2, count: 6, minBytes: 64 * 1024 ** 2 };
/** Limit for a file of unknown length. */
const unknownLimitBytes = 50e9;

/** Returns undefined when another download, here or in another process, added the content. */
export async function download(request: DownloadRequest, signal: AbortSignal): Promise<Verified | undefined> {
  const { content, folder } = request;
  // No number of bytes reaches one that is not a number, or infinite.
  if (content.sizeBytes !== undefined && !isFileSize(content.sizeBytes)) throw mismatch();
  for (;;) {
    const claim = await claimPart(folder, content.key);
    if (claim.isMine) {
      if (!(await request.arrived())) return write(request, claim.path, signal);
      // It was added between the last check and the claim.
      await rm(claim.path, { force: true });
      return undefined;
    }
    request.onProgress(claim.bytes, content.sizeBytes ?? 0);
    await sleep(lookEveryMs, undefined, { signal });
    if (await request.arrived()) return undefined;
  }
}

async function write(request: DownloadRequest, path: string, signal: AbortSignal): Promise<Verified> {
  const { content, folder } = request;
  const gitSize = content.gitSha1 === undefined ? undefined : content.sizeBytes;
  const lease = setInterval(() => void renewPart(path), partLeaseMs / 4);
  let part: PartFile | undefined;
  let isWhole = false;
  try {
    part = await openPartFile(path, gitSize, signal);
    await request.needSpace(content.sizeBytes === undefined ? undefined : content.sizeBytes - part.bytes());
    const feed = { at: 0, tag: undefined };
    // A part of an earlier run or a neighbour's copy may be damaged: decide by one download from the start, from the
    // original source.
    for (let isTrusted = part.bytes() === 0 && request.sources.length === 1; ; isTrusted = true) {
      await fill(request, feed, part, signal);
      const sha256 = verify(content, part);
      if (sha256 !== undefined) {
        await part.sync();
        isWhole = true;
        return { path, sha256, sizeBytes: part.bytes() };
      }
      await part.rewind();
      if (isTrusted) throw mismatch();
      feed.at = request.sources.length - 1;
      feed.tag = undefined;
    }
  } catch (error) {
    const done = part?.bytes() ?? 0;
    if (isDiskFull(error)) throw diskFull(folder, (content.sizeBytes ?? done) - done, undefined);
    throw error;
  } finally {
    clearInterval(lease);
    await part?.close();
    if (!isWhole && (request.isFleeting || part?.bytes() === 0)) await rm(path, { force: true });
    else if (!isWhole) await releasePart(path);
  }
}

interface Feed {
  at: number;
  tag: string | undefined;
}

/** Reads until the file is complete; gives up after several consecutive attempts with almost no progress. */
async function fill(request: DownloadRequest, feed: Feed, part: PartFile, signal: AbortSignal): Promise<void> {
  const last = request.sources.length - 1;
  const pace = request.pace ?? defaultPace;
  if (part.bytes() === request.content.sizeBytes) return;
  const ahead = request.readAhead ?? defaultReadAhead;
  let mayReadAhead = true;
  for (let failures = 0; ; ) {
    const before = part.bytes();
    const source = request.sources[feed.at] as DownloadSource;
    let answer: WebAnswer | undefined;
    try {
      if (mayReadAhead && source.hasRanges && (request.content.sizeBytes ?? 0) - before >= ahead.minBytes) {
        // Once only: a source that fails under several requests is asked for one stream.
        mayReadAhead = false;
        if (await fillAhead(request, source, part, ahead, signal)) return;
        continue;
      }
      answer = await source.open({ from: before, tag: feed.tag }, signal);
      feed.tag = strongTag(answer);
      if (await receive(request, source, part, answer, signal)) return;
      throw new Error("the answer ended early");
    } catch (error) {
      answer?.body.on("error", () => {}).destroy();
      signal.throwIfAborted();
      if (isDiskFull(error)) throw error;
      if (feed.at < last) {
        feed.at += 1;
        feed.tag = undefined;
        continue;
      }
      if (error instanceof WeightsError || !answer) throw error;
      failures = part.bytes() - before >= pace.bytes ? 0 : failures + 1;
      const delay = retryDelaysMs[failures];
      if (delay === undefined) throw unreachableHost(answer.url.host, request.setting, error);
      await sleep(delay, undefined, { signal });
    }
  }
}

/** Returns false, with every byte in order kept, when the source does not send ranges or one of them failed. */
async function fillAhead(
  request: DownloadRequest,
  source: DownloadSource,
  part: PartFile,
  { bytes, count }: ReadAhead,
  signal: AbortSignal,
): Promise<boolean> {
  const total = request.content.sizeBytes ?? 0;
  const pace = request.pace ?? defaultPace;
  const stop = new AbortController();
  const inner = AbortSignal.any([signal, stop.signal]);
  const lanes: { readonly size: number; readonly chunk: Promise<Buffer> }[] = [];
  const { readAheadBudget: budget } = request;
  const first = part.bytes();
  let next = first;
  try {
    while (part.bytes() < total) {
      // The first range shows whether the source sends ranges.
      const most = part.bytes() === first ? 1 : count;
      while (next < total && lanes.length < most) {
        const until = Math.min(next + bytes, total);
        if (!budget.take(until - next)) break;
        const chunk = rangeOf(source, { from: next, until, tag: undefined }, pace, inner);
        chunk.catch(() => {});
        lanes.push({ size: until - next, chunk });
        next = until;
      }
      const [lane] = lanes;
      if (!lane) return false;
      const chunk = await lane.chunk;
      await part.append(chunk);
      lanes.shift();
      budget.give(lane.size);
      request.onBytes(source.name, chunk.length);
      request.onProgress(part.bytes(), total);
    }
    return true;
  } catch (error) {
    signal.throwIfAborted();
    if (isDiskFull(error)) throw error;
    return false;
  } finally {
    stop.abort();
    // An aborted range holds its memory until it ends.
    for (const { size, chunk } of lanes) void chunk.catch(() => {}).then(() => budget.give(size));
  }
}

async function rangeOf(
  source: DownloadSource,
  range: Required<Pick<ByteRange, "from">> & { readonly until: number; readonly tag: undefined },
  pace: Pace,
  signal: AbortSignal,
): Promise<Buffer> {
  const { from, until } = range;
  const answer = await source.open(range, signal);
  const onAbort = () => answer.body.destroy(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const start = /^bytes (\d+)-/.exec(answer.header("content-range") ?? "")?.[1];
    if (answer.status !== 206 || Number(start) !== from) throw new Error("the source does not send ranges");
    const chunk = Buffer.allocUnsafe(until - from);
    let size = 0;
    let windowMs = performance.now();
    let windowBytes = 0;
    for await (const piece of answer.body as AsyncIterable<Buffer>) {
      if (size + piece.length > chunk.length) throw new Error("the source sends more than the range");
      piece.copy(chunk, size);
      size += piece.length;
      windowBytes += piece.length;
      if (performance.now() - windowMs < pace.perMs) continue;
      if (windowBytes < pace.bytes) throw new Error("too slow");
      windowMs = performance.now();
      windowBytes = 0;
    }
    if (size !== chunk.length) throw new Error("the answer ended early");
    return chunk;
  } finally {
    signal.removeEventListener("abort", onAbort);
    answer.body.on("error", () => {}).destroy();
  }
}

async function receive(
  request: DownloadRequest,
  source: DownloadSource,
  part: PartFile,
  answer: WebAnswer,
  signal: AbortSignal,
): Promise<boolean> {
  const [, start, size] = /^bytes (?:(\d+)-\d+|\*)\/(\d+)$/.exec(answer.header("content-range") ?? "") ?? [];
  if (answer.status === 416) {
    if (Number(size) === part.bytes()) return true;
    await part.rewind();
    return false;
  }
  // A 200 sends the file from its start, whatever range was requested.
  if (part.bytes() > 0 && !(answer.status === 206 && Number(start) === part.bytes())) await part.rewind();
  const length = Number(answer.header("content-length") ?? Number.NaN);
  const total = request.content.sizeBytes ?? (Number.isSafeInteger(length) ? part.bytes() + length : undefined);
  const pace = request.pace ?? defaultPace;
  let windowMs = performance.now();
  let windowBytes = 0;
  request.onProgress(part.bytes(), total ?? 0);
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    signal.throwIfAborted();
    if (part.bytes() + chunk.length > (total ?? unknownLimitBytes)) {
      await part.rewind();
      throw mismatch();
    }
    await part.append(chunk);
    request.onBytes(source.name, chunk.length);
    request.onProgress(part.bytes(), total ?? 0);
    windowBytes += chunk.length;
    if (performance.now() - windowMs < pace.perMs) continue;
    if (windowBytes < pace.bytes) throw Object.assign(new Error("too slow"), { code: "UND_ERR_BODY_TIMEOUT" });
    windowMs = performance.now();
    windowBytes = 0;
  }
  return total === undefined || part.bytes() === total;
}

function strongTag(answer: WebAnswer): string | undefined {
  const tag = answer.header("etag");
  return tag !== undefined && /^"[\x21\x23-\x7e]*"$/.test(tag) ? tag : undefined;
}

function verify(content: Content, part: PartFile): string | undefined {
  const { sha256, git } = part.digests();
  if (content.sizeBytes !== undefined && part.bytes() !== content.sizeBytes) return undefined;
  if (content.isUnannounced || (content.version !== undefined && content.sha256 === undefined)) return sha256;
  const isRight = content.sha256 === undefined ? git === content.gitSha1 : sha256 === content.sha256;
  return isRight ? sha256 : undefined;
}

function mismatch(): WeightsError {
  const text =
    "The downloaded weights are not the file that was announced (wrong size or sha256), so they were deleted: the source or a proxy before it serves damaged files. Correct that or use another source, then deploy again.";
  return new WeightsError("hub_checksum_mismatch", text, { retryable: false });
}
