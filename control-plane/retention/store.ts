// Storage of retention. Implemented by store/retention-store.ts.
import type { Kept } from "./periods.ts";

export type { Kept };

export interface RetentionStore {
  /** Deletes at most `limit` rows of a kind that ended before `before`, or a month of usage; returns the count. */
  deleteBefore(kind: Kept, before: Date, limit: number): Promise<number>;
}
