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
