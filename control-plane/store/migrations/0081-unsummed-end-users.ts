import { type Kysely, sql } from "kysely";

/**
 * Sums all months of end users once more. 0071 read which ones exist while control planes still settled by the version before it: usage
 * of an account whose first end user came in between was not summed. The lock waits for such settlements and holds up new ones.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`lock table end_user_month in share mode`.execute(db);
  await sql`
    insert into end_user_unsummed (account_id, month) select account_id, month from end_user_month
      union select account_id, month + 1 from end_user_month
    on conflict do nothing`.execute(db);
}
