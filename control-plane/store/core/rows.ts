// Ends of queries of which only the number of rows matters: `query.$call(affectsRow)`.
import { type DeleteResult, type InsertResult, sql, type UpdateResult } from "kysely";

/** Executes a write; true when it inserted, changed or deleted a row. */
export async function affectsRow(write: {
  executeTakeFirst(): Promise<UpdateResult | DeleteResult | InsertResult>;
}): Promise<boolean> {
  const result = await write.executeTakeFirst();
  if ("numUpdatedRows" in result) return result.numUpdatedRows > 0n;
  if ("numDeletedRows" in result) return result.numDeletedRows > 0n;
  return (result.numInsertedOrUpdatedRows ?? 0n) > 0n;
}

export const findsRow = async (query: { executeTakeFirst(): Promise<unknown> }): Promise<boolean> =>
  (await query.executeTakeFirst()) !== undefined;

/** Column of a query that returns one row; null sums count as 0. */
export const rowCount = sql<number>`count(*)::int`.as("count");
