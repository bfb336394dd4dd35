// What one instance wants of a host, and what it was given.
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
  /** Whose it is: told what it holds itself where nothing is free. */
  readonly account?: AccountId | undefined;
  /** Id or name of the one host allowed; undefined: any. */
  readonly host: string | undefined;
  /** Of a rented container, by the name under which hosts offer it. */
  readonly rentalImage?: string | undefined;
  /** Of a model server or agent instance that brings its own. */
  readonly image?: string | undefined;
  /**
   * Its account, where it may share a GPU with others of that account and with nobody else: then `memoryBytes` is all it
   * will ever take.
   */
  readonly sharesWith?: AccountId | undefined;
  /** Most GPUs it may claim anew: others are kept for accounts with minimums. Undefined: any that are free. */
  readonly mostNewGpus?: number | undefined;
  /** What it loads: hosts that have it come first. */
  readonly weights?: string | undefined;
  /** Hosts with instances of the same deployment, and how many: the next one had better be elsewhere. */
  readonly spread?: ReadonlyMap<HostId, number> | undefined;
}

export interface Placed {
  readonly host: HostId;
  readonly revision: bigint;
  readonly gpus: readonly Gpu[];
  /** Of the one GPU it shares; 0: its GPUs are its own. */
  readonly gpuMemoryBytes: number;
  /** Of each of its GPUs. */
  readonly gpuShare: number;
  /** Of the host's memory. */
  readonly grantBytes: number;
}
