// Storage of time series. Implemented by store/fleet/series-store.ts.
import type { AccountId, HostId, ReplicaId } from "../../proto/ids.ts";
import type { Histogram } from "./histogram.ts";

export interface RequestSums {
  readonly requests: number;
  readonly clientErrors: number;
  readonly serverErrors: number;
  /** The client disconnected before the end. */
  readonly aborted: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Time to the first byte of streams. */
  readonly firstMs: Histogram;
  /** Duration of requests that were not refused. */
  readonly totalMs: Histogram;
}

/** Sums of one control plane in one minute. */
export interface RequestRow {
  readonly atMs: number;
  /** Empty: of all accounts. */
  readonly account: AccountId | string;
  /** Empty: of all models. */
  readonly model: string;
  readonly sums: RequestSums;
}

/** Minutes of a row, from the finest. */
export const resolutions = [1, 10, 360] as const;
export type Resolution = (typeof resolutions)[number];

export interface Window {
  readonly fromMs: number;
  readonly toMs: number;
  /** Length of a point: a multiple of `resolution`. */
  readonly stepMs: number;
  /** Finest rows that cover the window; newer ones fill its end. */
  readonly resolution: Resolution;
}

export interface RequestFilter {
  /** Undefined: all accounts. */
  readonly account?: AccountId | undefined;
  readonly model?: string | undefined;
  /** Undefined: one series. */
  readonly by?: "account" | "model" | undefined;
  /** Series with the most requests. */
  readonly limit: number;
}

export interface RequestPoint extends RequestSums {
  readonly atMs: number;
  /** Account or model; empty without `by`. */
  readonly label: string;
  /** E-mail address of the account. */
  readonly name: string | null;
  /** Nano-USD. */
  readonly spend: bigint;
}

/** Mean of the samples of a point; of temperature and waiting requests the maximum. Null: not reported. */
export interface HostFigures {
  readonly gpus: number;
  readonly gpusHeld: number;
  readonly gpuUse: number | null;
  readonly gpuMemoryUsed: number | null;
  readonly gpuMemoryTotal: number | null;
  readonly gpuPowerWatts: number | null;
  readonly gpuTemperature: number | null;
  readonly cpuUse: number | null;
  readonly memoryUsed: number | null;
  readonly running: number;
  readonly waiting: number;
}

export interface HostPoint extends HostFigures {
  readonly atMs: number;
  /** Empty: all hosts. */
  readonly host: HostId | "";
  readonly name: string | null;
}

export interface GpuPoint {
  readonly atMs: number;
  readonly gpu: string;
  readonly use: number | null;
  readonly memoryUsed: number | null;
  readonly powerWatts: number | null;
  readonly temperature: number | null;
}

/** Sums of about the last minute, of all control planes. */
export interface LiveFigures {
  /** Length of that time. */
  readonly seconds: number;
  readonly requests: number;
  /** Refused and failed ones. */
  readonly errors: number;
  readonly outputTokens: number;
  readonly firstMs: Histogram;
}

export type LiveFleet = Pick<
  HostFigures,
  "gpus" | "gpusHeld" | "gpuUse" | "gpuMemoryUsed" | "gpuMemoryTotal" | "gpuPowerWatts" | "running" | "waiting"
>;

export interface SeriesStore {
  /** Empty account: all. Accounts without requests are absent. */
  live(accounts: readonly (AccountId | "")[]): Promise<ReadonlyMap<AccountId | "", LiveFigures>>;
  /** Undefined: no host reported within `freshMs`. */
  liveFleet(freshMs: number): Promise<LiveFleet | undefined>;
  /** Writes sums of this control plane in place of those that it wrote for the same minutes. */
  writeRequests(replica: ReplicaId, rows: readonly RequestRow[]): Promise<void>;
  /** Stores one sample of every host that reported within `freshMs`, unless this minute has one. */
  sampleHosts(freshMs: number): Promise<void>;
  /** Stores what was charged in minutes that ended, from the ledger. */
  writeSpend(): Promise<void>;
  /** Computes coarser rows of periods that ended. */
  rollUp(): Promise<void>;
  /** Deletes rows of a resolution older than `olderMs`, at most `limit` of each table; returns the higher count. */
  deleteOld(resolution: Resolution, olderMs: number, limit: number): Promise<number>;
  requests(filter: RequestFilter, window: Window): Promise<readonly RequestPoint[]>;
  /** `host` undefined: all hosts together. */
  hosts(by: "fleet" | "host", host: HostId | undefined, limit: number, window: Window): Promise<readonly HostPoint[]>;
  gpus(host: HostId, window: Window): Promise<readonly GpuPoint[]>;
}
