// What retention needs of the database. Implemented by store/retention-store.ts.
import type { Kept } from "./periods.ts";

export type { Kept };

export interface RetentionStore {
  /** Deletes at most `limit` rows of a kind that were done with before `before`; returns how many. */
  deleteBefore(kind: Kept, before: Date, limit: number): Promise<number>;
}
