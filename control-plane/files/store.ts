// What files need of the database. Implemented by store/file-store.ts.
import type { AccountId } from "../../proto/ids.ts";
import type { FileId, FilePurpose, StoredFile } from "./file.ts";

export type { FileId, FilePurpose, StoredFile } from "./file.ts";

export interface PageWish<Cursor> {
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
  /** Before its first byte is written, so that whatever is left of an upload that was cut off is found and removed. */
  begin(blob: Blob): Promise<void>;
  /** `quotaBytes`: of all files of the account together. A number: what they are now, and nothing was changed. */
  finish(upload: FinishedUpload, quotaBytes: number): Promise<StoredFile | number>;
  find(account: AccountId, id: FileId): Promise<(StoredFile & { readonly blobKey: string }) | undefined>;
  /** Of one that an open batch reads: its bytes stay until the batch has ended, whatever became of the file. */
  inputBlob(account: AccountId, id: FileId): Promise<string | undefined>;
  /** Undefined: the cursor is unknown. */
  list(
    account: AccountId,
    purpose: FilePurpose | undefined,
    page: PageWish<FileId>,
  ): Promise<{ readonly files: readonly StoredFile[]; readonly hasMore: boolean } | undefined>;
  /** From now on nobody sees it; its bytes go with the next sweep. Otherwise the batch that reads it. */
  remove(account: AccountId, id: FileId): Promise<"removed" | "unknown" | { readonly readBy: string }>;
  /** An upload that came to nothing. */
  abandon(account: AccountId, id: FileId): Promise<void>;
  /** Removed, expired or never finished, and read by no batch. */
  due(limit: number): Promise<readonly Blob[]>;
  forget(blob: Blob): Promise<void>;
}
