import { sql } from "kysely";

/** Imbalance of the last ten minutes, platform loss of the last hour, and usage records in quarantine, as columns. */
export const moneySums = sql`
  (select coalesce(sum(abs(total)), 0)::bigint from (
    select sum(amount) as total from ledger_entry where posted_at > now() - interval '10 minutes'
    group by transaction_id having sum(amount) <> 0) unbalanced) as imbalance,
  (select coalesce(sum(amount), 0)::bigint from ledger_entry
    where posted_at > now() - interval '1 hour' and book = 'platform_loss') as loss,
  (select count(*) from usage_quarantine where resolved_at is null) as quarantined`;
