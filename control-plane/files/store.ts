// Storage of files. Implemented by store/file-store.ts.

import type { AccountId, Id } from "../../proto/ids.ts";

/** `file_` and 24 letters and digits. */
export type FileId = Id<"file">;

/** `batch_output`: written by us. */
export type FilePurpose = "batch" | "batch_output";

export interface StoredFile {
  readonly id: FileId;
  readonly account: AccountId;
  readonly purpose: FilePurpose;
  readonly filename: string;
  readonly bytes: number;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
}

export interface PageParams<Cursor> {
  readonly after: Cursor | undefined;
  readonly order: "asc" | "desc";
  readonly limit: number;
}

export interface FinishedUpload {
  readonly account: AccountId;
  readonly id: FileId;
  readonly filename: string;
  readonly bytes: number;
  readonly expiresAfterMs: number;
}

export interface Blob {
  readonly account: AccountId;
  readonly id: FileId;
  readonly blobKey: string;
}

export interface FileStore {
  /** Recorded before its first byte is written, so that the remains of an aborted upload are found and removed. */
  begin(blob: Blob): Promise<void>;
  /**
   * `quotaBytes`: for all files of the account. Returns a number, the current usage, when the quota would be exceeded;
   * nothing was changed.
   */
  finish(upload: FinishedUpload, quotaBytes: number): Promise<StoredFile | number>;
  find(account: AccountId, id: FileId): Promise<(StoredFile & { readonly blobKey: string }) | undefined>;
  /** Input of an open batch: its bytes stay until the batch has ended, even when the file is deleted. */
  inputBlob(account: AccountId, id: FileId): Promise<string | undefined>;
  /** Undefined: the cursor is unknown. */
  list(
    account: AccountId,
    purpose: FilePurpose | undefined,
    page: PageParams<FileId>,
  ): Promise<{ readonly files: readonly StoredFile[]; readonly hasMore: boolean } | undefined>;
  /** Hides the file; the next sweep removes its bytes. Otherwise returns the batch that reads it. */
  remove(account: AccountId, id: FileId): Promise<"removed" | "unknown" | { readonly readBy: string }>;
  /** Records an aborted upload. */
  abandon(account: AccountId, id: FileId): Promise<void>;
  /** Removed, expired or unfinished files that no batch reads. */
  due(limit: number): Promise<readonly Blob[]>;
  forget(blob: Blob): Promise<void>;
}
