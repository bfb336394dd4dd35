// Files of accounts: bytes in the blob store, their records in the database. INVARIANT: a blob is written only under a key
// that stands in the database, so that nothing is ever left where nobody looks for it.
import { createHash } from "node:crypto";
import { type Readable, Transform } from "node:stream";
import { type AccountId, randomId } from "../../proto/ids.ts";
import { BlobMissing, type BlobStore } from "./blobs.ts";
import { FileEmpty, FileInUse, FileNotFound, FileQuotaUsedUp, FileTooLarge, UnknownCursor } from "./errors.ts";
import type { FileId, FilePurpose, StoredFile } from "./file.ts";
import type { FileStore, PageWish } from "./store.ts";

/** Written and not yet a file: `keep` makes it one, `discard` lets it go. */
export interface StagedFile {
  readonly id: FileId;
  readonly bytes: number;
  /** SHA-256 of the bytes, in hexadecimal. */
  readonly digest: string;
  /** Throws FileEmpty, FileTooLarge, FileQuotaUsedUp. */
  keep(wish: { readonly filename: string; readonly expiresAfterMs: number | undefined }): Promise<StoredFile>;
  /** No-op for one that was kept. */
  discard(): Promise<void>;
}

export interface Files {
  /** Takes all of `body`. Throws FileTooLarge, FileStoreAway, and the error that `body` ends with. */
  stage(account: AccountId, body: Readable, signal: AbortSignal): Promise<StagedFile>;
  /** Bytes of our own making, not bound by the quota: no file before the transaction that they are of says so. */
  write(account: AccountId, body: Readable, signal: AbortSignal): Promise<Pick<StoredFile, "id" | "bytes">>;
  /** Throws FileNotFound. */
  get(account: AccountId, id: string): Promise<StoredFile>;
  /** Throws UnknownCursor. */
  list(
    account: AccountId,
    purpose: FilePurpose | undefined,
    page: PageWish<string>,
  ): Promise<{ readonly files: readonly StoredFile[]; readonly hasMore: boolean }>;
  /** Throws FileNotFound, FileStoreAway. */
  content(account: AccountId, id: string): Promise<{ readonly file: StoredFile; readonly body: Readable }>;
  /** Of a batch that has not ended, also when the file was deleted or has expired. Throws FileNotFound, FileStoreAway. */
  input(account: AccountId, id: string): Promise<Readable>;
  /** Throws FileNotFound, FileInUse. */
  remove(account: AccountId, id: string): Promise<void>;
  /** Removes the bytes of what was deleted, has expired or was never finished. Idempotent; several may do it at once. */
  sweep(signal: AbortSignal): Promise<number>;
}

export interface FileLimits {
  /** Of any file. */
  readonly bytes: number;
  /** Of one that a batch reads. */
  readonly batchBytes: number;
  /** Of all files of an account together. */
  readonly quotaBytes: number;
}

const dayMs = 86_400_000;
export const usualExpiryMs = 30 * dayMs;
const sweepAtOnce = 100;

export function createFiles(deps: {
  readonly store: FileStore;
  readonly blobs: BlobStore;
  readonly limits: FileLimits;
}): Files {
  const { store, blobs, limits } = deps;

  /** Nothing is left of it when it fails. */
  async function written(account: AccountId, body: Readable, mostBytes: number, signal: AbortSignal) {
    const id = `file_${randomId(24)}` as FileId;
    const blobKey = `files/${id}`;
    await store.begin({ account, id, blobKey });
    const hash = createHash("sha256");
    let bytes = 0;
    const counted = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        bytes += chunk.length;
        if (bytes > mostBytes) return done(new FileTooLarge(mib(mostBytes)));
        hash.update(chunk);
        done(null, chunk);
      },
    });
    // A store that fails before it reads must not leave the stream's own end to nobody.
    counted.on("error", () => {});
    body.on("error", (error) => counted.destroy(error));
    try {
      await blobs.put(blobKey, body.pipe(counted), signal);
    } catch (error) {
      await store.abandon(account, id).catch(() => {});
      throw error;
    }
    return { id, bytes, digest: hash.digest("hex") };
  }

  async function found(account: AccountId, id: string) {
    const file = await store.find(account, id as FileId);
    if (!file) throw new FileNotFound();
    return file;
  }

  async function bytesOf(blobKey: string): Promise<Readable> {
    try {
      return await blobs.get(blobKey);
    } catch (error) {
      if (error instanceof BlobMissing) throw new FileNotFound();
      throw error;
    }
  }

  return {
    async stage(account, body, signal) {
      const { id, bytes, digest } = await written(account, body, limits.bytes, signal);
      let isKept = false;
      return {
        id,
        bytes,
        digest,
        async keep({ filename, expiresAfterMs = usualExpiryMs }) {
          if (bytes === 0) throw new FileEmpty();
          if (bytes > limits.batchBytes) throw new FileTooLarge(`${limits.batchBytes / 1e6} MB`);
          const wish = { account, id, filename: nameOf(filename), bytes, expiresAfterMs };
          const kept = await store.finish(wish, limits.quotaBytes);
          if (typeof kept === "number") throw new FileQuotaUsedUp(kept, limits.quotaBytes);
          isKept = true;
          return kept;
        },
        async discard() {
          if (!isKept) await store.abandon(account, id);
        },
      };
    },
    async write(account, body, signal) {
      const { id, bytes } = await written(account, body, Number.POSITIVE_INFINITY, signal);
      return { id, bytes };
    },
    get: found,
    async list(account, purpose, page) {
      const listed = await store.list(account, purpose, page as PageWish<FileId>);
      if (!listed) throw new UnknownCursor();
      return listed;
    },
    async content(account, id) {
      const file = await found(account, id);
      return { file, body: await bytesOf(file.blobKey) };
    },
    async input(account, id) {
      const blobKey = await store.inputBlob(account, id as FileId);
      if (blobKey === undefined) throw new FileNotFound();
      return bytesOf(blobKey);
    },
    async remove(account, id) {
      const end = await store.remove(account, id as FileId);
      if (end === "unknown") throw new FileNotFound();
      if (typeof end === "object") throw new FileInUse(end.readBy);
    },
    async sweep(signal) {
      for (let total = 0; ; ) {
        const due = await store.due(sweepAtOnce);
        for (const blob of due) {
          if (signal.aborted) return total;
          await blobs.remove(blob.blobKey);
          await store.forget(blob);
          total += 1;
        }
        if (due.length < sweepAtOnce) return total;
      }
    },
  };
}

const mib = (bytes: number) => `${Math.round((bytes / 1024 ** 2) * 100) / 100} MiB`;

/** As it is shown: the last part of a path, without control characters. */
function nameOf(given: string): string {
  const last = given.split(/[/\\]/).at(-1) ?? "";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out.
  return last.replaceAll(/[\u0000-\u001f\u007f]/g, "").slice(0, 255) || "file";
}
