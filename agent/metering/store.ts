// Port for the state that the GPU meter keeps across restarts of the agent. Implemented by state/, fsynced.
import type { UsageRecord } from "../../proto/usage-record.ts";
import type { Tally } from "./tally.ts";

export type { Tally };

export interface MeterStore {
  /** Minutes that an earlier life of this agent had begun; empty on a fresh host. */
  kept(): readonly Tally[];
  /** Minutes that have begun, and records of those that ended: durable together when the promise resolves. */
  save(open: readonly Tally[], ended: readonly UsageRecord[]): Promise<void>;
}
