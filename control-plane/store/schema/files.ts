import type { Generated } from "kysely";
import type { DefaultTime, OptionalJson, Time } from "./columns.ts";

type OptionalTime = DefaultTime | null;

export interface FilesTables {
  file: {
    file_id: string;
    account_id: string;
    purpose: Generated<"batch" | "batch_output">;
    filename: Generated<string>;
    bytes: Generated<bigint>;
    /** Of the blob store. */
    blob_key: string;
    /** False while it is being written: nobody sees it, and at its expiry its blob is removed. */
    is_ready: Generated<boolean>;
    created_at: DefaultTime;
    expires_at: Time;
    /** Deleted by its owner, or come to nothing: the blob goes with the next sweep, and the row with it. */
    removed_at: OptionalTime;
  };
  batch: {
    batch_id: string;
    account_id: string;
    /** Its lines are this key's use. */
    key_id: string;
    endpoint: string;
    input_file_id: string;
    metadata: OptionalJson<Record<string, string>>;
    output_expires_after_ms: bigint;
    status: Generated<
      "validating" | "in_progress" | "finalizing" | "completed" | "failed" | "expired" | "cancelling" | "cancelled"
    >;
    /** As its lines name it, once they were read. */
    model: string | null;
    errors: OptionalJson<{ code: string; line: number | null; message: string; param: string | null }[]>;
    total: Generated<number>;
    completed: Generated<number>;
    failed: Generated<number>;
    input_tokens: Generated<bigint>;
    cached_tokens: Generated<bigint>;
    output_tokens: Generated<bigint>;
    reasoning_tokens: Generated<bigint>;
    output_file_id: string | null;
    error_file_id: string | null;
    created_at: DefaultTime;
    /** Lines that have not begun by then are not begun any more. */
    expires_at: Time;
    in_progress_at: OptionalTime;
    finalizing_at: OptionalTime;
    completed_at: OptionalTime;
    failed_at: OptionalTime;
    expired_at: OptionalTime;
    cancelling_at: OptionalTime;
    cancelled_at: OptionalTime;
    /** How often it was taken up, and the fence: what an earlier run writes changes nothing. */
    run: Generated<number>;
    /** Of these the last ones, one after the other, that added no result and were not given back. */
    barren_runs: Generated<number>;
    /** Whoever runs it renews this; after it any control plane may take it up. */
    locked_until: DefaultTime;
  };
  /** Until the output files are written. The line is its key: none is reported twice. */
  batch_result: {
    batch_id: string;
    line: number;
    /** For the error file. */
    is_error: boolean;
    /** A line of the file, as JSON. */
    body: string;
  };
}
