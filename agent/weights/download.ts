// Streams one file to disk: resumes what is there, goes on after a cut, and answers only for bytes whose hash was checked.
import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { openPartFile, type PartFile } from "./part-file.ts";
import { claimPart, releasePart } from "./parts.ts";
import type { WebAnswer } from "./web.ts";
import { codeOf, diskFull, unreachableHost, WeightsError } from "./weights-error.ts";

export interface Content {
  /** Names the bytes, in hexadecimal: equal keys are equal content. */
  readonly key: string;
  readonly sha256: string | undefined;
  /** Git's hash of the file as a blob, where the hub tells no sha256; `sizeBytes` is known then. */
  readonly gitSha1: string | undefined;
  readonly sizeBytes: number | undefined;
}

export interface DownloadRequest {
  readonly folder: string;
  readonly content: Content;
  /** For the error text: the setting that names another source. */
  readonly setting: string;
  /** Answers 200, 206 or 416; throws WeightsError for the rest. */
  open(from: number, signal: AbortSignal): Promise<WebAnswer>;
  /** Throws when that much does not fit; `left` is what is still to come, undefined while unknown. */
  needSpace(left: number | undefined): Promise<void>;
  /** `total` is 0 while it is unknown. */
  onProgress(done: number, total: number): void;
}

export interface Verified {
  /** Still an incomplete file's name: the caller moves it. */
  readonly path: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

const retryDelaysMs = [500, 1000, 2000, 4000];

export async function download(request: DownloadRequest, signal: AbortSignal): Promise<Verified> {
  const { content, folder } = request;
  const path = await claimPart(folder, content.key);
  const gitSize = content.gitSha1 === undefined ? undefined : content.sizeBytes;
  const part = await openPartFile(path, gitSize, signal);
  let isWhole = false;
  try {
    await request.needSpace(content.sizeBytes === undefined ? undefined : content.sizeBytes - part.bytes());
    // A part of an earlier run may have been damaged on disk: then one download from the start decides.
    for (let isResumed = part.bytes() > 0; ; isResumed = false) {
      await fill(request, part, signal);
      const sha256 = verify(content, part);
      if (sha256 !== undefined) {
        await part.sync();
        isWhole = true;
        return { path, sha256, sizeBytes: part.bytes() };
      }
      await part.rewind();
      if (!isResumed) throw mismatch();
    }
  } catch (error) {
    if (isOfDisk(error)) throw diskFull(folder, (content.sizeBytes ?? part.bytes()) - part.bytes(), undefined);
    throw error;
  } finally {
    await part.close();
    if (part.bytes() === 0) await rm(path, { force: true });
    else if (!isWhole) await releasePart(path);
  }
}

/** Reads until the file is whole; gives up after several attempts in a row that brought nothing. */
async function fill(request: DownloadRequest, part: PartFile, signal: AbortSignal): Promise<void> {
  if (part.bytes() === request.content.sizeBytes) return;
  for (let failures = 0; ; ) {
    const before = part.bytes();
    const answer = await request.open(before, signal);
    try {
      if (await receive(request, part, answer, signal)) return;
      throw new Error("the answer ended early");
    } catch (error) {
      answer.body.on("error", () => {}).destroy();
      signal.throwIfAborted();
      if (error instanceof WeightsError || isOfDisk(error)) throw error;
      failures = part.bytes() > before ? 0 : failures + 1;
      const delay = retryDelaysMs[failures];
      if (delay === undefined) throw unreachableHost(answer.url.host, request.setting, error);
      await sleep(delay, undefined, { signal });
    }
  }
}

/** True when the file is whole. */
async function receive(
  request: DownloadRequest,
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
  // A 200 sends the file from its start, whatever was asked.
  if (part.bytes() > 0 && !(answer.status === 206 && Number(start) === part.bytes())) await part.rewind();
  const length = Number(answer.header("content-length") ?? Number.NaN);
  const total = request.content.sizeBytes ?? (Number.isSafeInteger(length) ? part.bytes() + length : undefined);
  request.onProgress(part.bytes(), total ?? 0);
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    signal.throwIfAborted();
    if (total !== undefined && part.bytes() + chunk.length > total) {
      await part.rewind();
      throw mismatch();
    }
    await part.append(chunk);
    request.onProgress(part.bytes(), total ?? 0);
  }
  return total === undefined || part.bytes() === total;
}

function verify(content: Content, part: PartFile): string | undefined {
  const { sha256, git } = part.digests();
  if (content.sizeBytes !== undefined && part.bytes() !== content.sizeBytes) return undefined;
  const isRight = content.sha256 === undefined ? git === content.gitSha1 : sha256 === content.sha256;
  return isRight ? sha256 : undefined;
}

function isOfDisk(error: unknown): boolean {
  return codeOf(error) === "ENOSPC" || codeOf(error) === "EDQUOT";
}

function mismatch(): WeightsError {
  const text =
    "The downloaded weights are not the file that was announced (wrong size or sha256), so they were thrown away: the source or a proxy before it serves damaged files; correct that or use another source, then deploy again.";
  return new WeightsError("hub_checksum_mismatch", text, { retryable: false });
}
