import type { DefaultTime, Time } from "./columns.ts";

export interface NodeFactsTables {
  /** Faults of GPUs. While one is not lifted its GPU is given to nobody; the same occurrence never cordons twice. */
  gpu_cordon: {
    host_id: string;
    gpu_uuid: string;
    /** Names this very occurrence, as the agent does. */
    fault_id: string;
    reason: string;
    cordoned_at: DefaultTime;
    lifted_at: Time | null;
  };
}
