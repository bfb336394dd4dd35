import type { HostId } from "../../proto/ids.ts";
import type { Act } from "../act.ts";
import type { QuarantineProblem } from "./record.ts";

/** A usage record that cannot be billed without an operator, as its host sent it. */
export interface NewQuarantined {
  /** As the host names it. */
  readonly requestId: string;
  readonly attempt: number;
  readonly problem: QuarantineProblem;
  /** For people. */
  readonly why: string;
  /** JSON, whole. */
  readonly record: string;
}

export interface Quarantined extends NewQuarantined {
  readonly id: bigint;
  readonly host: HostId;
  readonly nodeEpoch: string;
  readonly at: Date;
}

export interface QuarantineHost {
  readonly host: HostId;
  /** Records that wait for an operator. */
  readonly open: number;
  /** Records that were not kept, because the host had the maximum in quarantine. */
  readonly dropped: number;
}

export type Resolution = "released" | "discarded";

export interface QuarantineStore {
  /**
   * Keeps what is new while `host` has fewer than `maxOpen` unresolved records, and counts the others, and `uncounted` more, as
   * dropped. Returns how many of these it dropped.
   */
  quarantine(
    host: HostId,
    nodeEpoch: string,
    records: readonly NewQuarantined[],
    maxOpen: number,
    uncounted: number,
  ): Promise<number>;
  /** Unresolved records, oldest first, after `after`. */
  quarantined(
    filter: { readonly host?: HostId | undefined },
    after: bigint,
    limit: number,
  ): Promise<readonly Quarantined[]>;
  findQuarantined(id: bigint): Promise<Quarantined | undefined>;
  /** Hosts with unresolved or dropped records. */
  quarantineHosts(): Promise<readonly QuarantineHost[]>;
  /** Resolves one record, with an audit row. False when there is no such record or it is resolved. */
  resolve(id: bigint, how: Resolution, act: Act): Promise<boolean>;
  /** Discards all unresolved records of a host and resets its count of dropped ones, with an audit row; returns how many. */
  discardHost(host: HostId, act: Act): Promise<number>;
}
