import type { Generated } from "kysely";
import type { DefaultTime, Json, Time } from "./columns.ts";

type GpuCounts = Readonly<Record<string, number>>;

export interface QuotasTables {
  /** What an operator set for one account; null, and a GPU type that is not named, stand for the installation's default. */
  account_limit: {
    account_id: string;
    rate_limit: number | null;
    tpm_rate_limit: bigint | null;
    gpu_max: Json<GpuCounts>;
    gpu_min: Json<GpuCounts>;
    updated_at: DefaultTime;
  };
  /** By GPU type, moved by every claim that a minimum of another account bears on: two of them never look at the same time. */
  gpu_reserve: {
    gpu: string;
    revision: bigint;
  };
  /** At most one open request (`decision` null) of a kind and account, by a partial unique index. */
  limit_request: {
    request_id: string;
    account_id: string;
    kind: "gpu" | "rate";
    reason: string;
    /** {max, min} by GPU type, or {rate_limit, tpm_rate_limit}. */
    requested: Json<unknown>;
    /** Rises with every amendment: what an operator decides on is what was read. */
    revision: Generated<number>;
    decision: "approved" | "rejected" | "withdrawn" | null;
    resolved_by: string | null;
    resolution_reason: string | null;
    created_at: DefaultTime;
    updated_at: DefaultTime;
    resolved_at: Time | null;
  };
}
