import type { Generated } from "kysely";
import type { DefaultTime, Time } from "./columns.ts";

export interface GpuTimeTables {
  /** One row per instance that ever ran on GPUs. */
  gpu_hold: {
    instance_id: string;
    deploy_id: string;
    account_id: string;
    /** Only what this host meters is believed; null when the instance was gone before its first hold. */
    host_id: string | null;
    /** Of each of its GPUs: 1 all of it. */
    gpu_share: Generated<number>;
    /** Whole minutes of control-plane time that were promised in advance: what is metered outside them bills nobody. */
    covered: Generated<string>;
    /** End of the last minute whose record is in the ledger. */
    settled_until: DefaultTime;
    /** Where the money of the covered minutes that are not settled is reserved; null while none is needed. */
    lease_id: string | null;
    /** Since when it serves no more; null while it does. */
    ended_at: Time | null;
  };
}
