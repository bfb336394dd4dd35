import type { Generated } from "kysely";
import type { DefaultTime } from "./columns.ts";

export interface PlacementTables {
  /** Most GPU memory that an instance was seen to hold, over all its GPUs. */
  measured_memory: {
    /** Of the weights. */
    version: string;
    engine: string;
    gpu: string;
    /** Everything else that changes what it takes, in one text. */
    settings: string;
    peak_bytes: bigint;
    /** What its deployment had expected; 0 nothing. */
    expected_bytes: bigint;
    /** How often it was looked at while it served. */
    looks: Generated<number>;
    measured_at: DefaultTime;
  };
}
