// Files in memory: the real verbs over a store and blobs of the test's own.

import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { BlobMissing, type BlobStore } from "../../control-plane/files/blobs.ts";
import { createFiles, type FileLimits, type Files } from "../../control-plane/files/files.ts";
import type { Blob, FileStore, StoredFile } from "../../control-plane/files/store.ts";
import type { AccountId } from "../../proto/ids.ts";

export const fileId = "file_ofAda";

class FakeFileStore implements FileStore {
  readonly begun = new Map<string, Blob>();
  readonly files = new Map<string, StoredFile & { readonly blobKey: string }>();

  begin(blob: Blob) {
    this.begun.set(blob.id, blob);
    return Promise.resolve();
  }
  finish({ account, id, filename, bytes, expiresAfterMs }: Parameters<FileStore["finish"]>[0], quota: number) {
    const used = [...this.files.values()].reduce((sum, file) => sum + (file.account === account ? file.bytes : 0), 0);
    if (used + bytes > quota) return Promise.resolve(used);
    const createdAtMs = Date.now();
    const file = {
      account,
      id,
      purpose: "batch" as const,
      filename,
      bytes,
      createdAtMs,
      expiresAtMs: createdAtMs + expiresAfterMs,
    };
    this.files.set(id, { ...file, blobKey: this.begun.get(id)?.blobKey ?? "" });
    this.begun.delete(id);
    return Promise.resolve(file);
  }
  find(account: AccountId, id: string) {
    const file = this.files.get(id);
    return Promise.resolve(file?.account === account ? file : undefined);
  }
  async inputBlob(account: AccountId, id: string) {
    return (await this.find(account, id))?.blobKey;
  }
  list(account: AccountId, purpose: string | undefined, { after, order, limit }: Parameters<FileStore["list"]>[2]) {
    let files = [...this.files.values()].filter(
      (file) => file.account === account && (purpose === undefined || file.purpose === purpose),
    );
    if (order === "desc") files.reverse();
    if (after !== undefined) {
      const at = files.findIndex((file) => file.id === after);
      if (at < 0) return Promise.resolve(undefined);
      files = files.slice(at + 1);
    }
    return Promise.resolve({ files: files.slice(0, limit), hasMore: files.length > limit });
  }
  async remove(account: AccountId, id: string) {
    if (!(await this.find(account, id))) return "unknown" as const;
    this.files.delete(id);
    return "removed" as const;
  }
  abandon(_account: AccountId, id: string) {
    this.begun.delete(id);
    return Promise.resolve();
  }
  due = () => Promise.resolve([]);
  forget = () => Promise.resolve();
}

export class FakeBlobs implements BlobStore {
  readonly name = "folder";
  readonly blobs = new Map<string, Buffer>();
  async put(key: string, body: Readable) {
    this.blobs.set(key, await buffer(body));
  }
  async get(key: string) {
    const bytes = this.blobs.get(key);
    if (!bytes) throw new BlobMissing(key);
    return Readable.from([bytes]);
  }
  async remove(key: string) {
    this.blobs.delete(key);
  }
}

/** With one file of `owner`. */
export function fakeFiles(owner: AccountId, limits: Partial<FileLimits> = {}): Files {
  const store = new FakeFileStore();
  const blobs = new FakeBlobs();
  const file = {
    id: fileId as StoredFile["id"],
    account: owner,
    purpose: "batch" as const,
    filename: "requests.jsonl",
    bytes: 3,
    createdAtMs: 1_786_000_000_000,
    expiresAtMs: 1_788_592_000_000,
  };
  store.files.set(fileId, { ...file, blobKey: "files/one" });
  blobs.blobs.set("files/one", Buffer.from("{}\n"));
  return createFiles({
    store,
    blobs,
    limits: { bytes: 512 * 1024 ** 2, batchBytes: 200e6, quotaBytes: 1024 ** 3, ...limits },
  });
}
