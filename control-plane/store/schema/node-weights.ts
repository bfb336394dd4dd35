import type { Generated } from "kysely";
import type { DefaultTime } from "./columns.ts";

export interface NodeWeightsTables {
  /** Weights an operator wants on a host before anybody asks. */
  node_weights: {
    prefetch_id: string;
    host_id: string;
    repo: string;
    revision: string;
    /** Empty: chosen by format. */
    file: string;
    /** gguf, safetensors, onnx, lora */
    format: string;
    /** Never evicted. */
    pinned: boolean;
    /** Empty until it is there; this and what follows as the host last said. */
    commit: Generated<string>;
    bytes: Generated<bigint>;
    bytes_total: Generated<bigint>;
    fail_code: Generated<string>;
    fail_message: Generated<string>;
    created_at: DefaultTime;
  };
}
