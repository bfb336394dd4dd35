// Requirements of one instance, and the resources it was granted.
import type { GpuType } from "../../proto/gpu.ts";
import type { AccountId, HostId } from "../../proto/ids.ts";
import type { Gpu } from "../fleet/host.ts";
import type { Engine } from "./deployment.ts";

export interface Want {
  readonly gpu: GpuType;
  /** 0: needs none (an external engine). */
  readonly gpusPerInstance: number;
  /** Over all GPUs of the instance; 0 unknown. */
  readonly memoryBytes: number;
  readonly engine: Engine;
  /** Its account: refusals mention the account's own claims. */
  readonly account?: AccountId | undefined;
  /** Id or name of the required host; undefined: any. */
  readonly host: string | undefined;
  /** Image of a rented container, by the name under which hosts offer it. */
  readonly rentalImage?: string | undefined;
  /** Image of a model server or agent instance with its own. */
  readonly image?: string | undefined;
  /** Its account, if it may share a GPU with other instances of that account; then `memoryBytes` is its upper bound. */
  readonly sharesWith?: AccountId | undefined;
  /** Maximum GPUs it may newly claim: others are reserved for minimums. Undefined: any free ones. */
  readonly maxNewGpus?: number | undefined;
  /** Weights to load: hosts that have them come first. */
  readonly weights?: string | undefined;
  /** Hosts with sibling instances, and their count: other hosts are preferred. */
  readonly spread?: ReadonlyMap<HostId, number> | undefined;
}

export interface Placed {
  readonly host: HostId;
  readonly revision: bigint;
  readonly gpus: readonly Gpu[];
  /** Memory on its shared GPU; 0: exclusive GPUs. */
  readonly gpuMemoryBytes: number;
  /** Share of each of its GPUs. */
  readonly gpuShare: number;
  /** Granted host memory. */
  readonly grantBytes: number;
}
