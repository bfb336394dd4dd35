// What calls of webhooks keep of an account's answers, within a number of bytes: the oldest that have ended are let go first,
// those that came to their receiver before those that did not. Their records stay.
import { type Kysely, sql, type Transaction } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { Database } from "../core/schema.ts";

/** Down to this share at a time: not every call is to look for the oldest. */
const keptShare = 0.9;

/** In the transaction that added to it. */
export async function letOldResultsGo(trx: Transaction<Database>, account: string, maxBytes: number): Promise<void> {
  const kept = await keptBytes(trx, account);
  if (kept <= maxBytes) return;
  // Those that are held are being replayed, or deleted: their holder may wait for what this transaction holds.
  await sql`
    update webhook_delivery set body = null, results = null where webhook_id in (
      select webhook_id from webhook_delivery where state <> 'pending' and webhook_id in (
        select webhook_id from (
          select webhook_id, sum(bytes) over (order by state = 'exhausted', finished_at, webhook_id) - bytes as bytes_before
          from (
            select webhook_id, state, finished_at, octet_length(body) + coalesce(octet_length(results), 0) as bytes
            from webhook_delivery where account_id = ${account} and state <> 'pending' and body is not null
          ) as ended
        ) as oldest where bytes_before < ${kept - maxBytes * keptShare}
      ) for update skip locked
    )`.execute(trx);
}

/** Whether calls that are still tried keep all there is: nothing of them can be let go. */
export async function isFullOfPending(trx: Kysely<Database>, account: AccountId, maxBytes: number): Promise<boolean> {
  if ((await keptBytes(trx, account)) < maxBytes) return false;
  const { rows } = await sql<{ bytes: bigint | null }>`
    select sum(octet_length(body) + coalesce(octet_length(results), 0))::bigint as bytes from webhook_delivery
    where account_id = ${account} and state = 'pending'`.execute(trx);
  return Number(rows[0]?.bytes ?? 0) >= maxBytes;
}

/** Of all accounts. */
export async function allKeptBytes(db: Kysely<Database>): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(bytes), 0)::float8 as bytes from webhook_kept`.execute(db);
  return rows[0]?.bytes ?? 0;
}

async function keptBytes(trx: Kysely<Database>, account: string): Promise<number> {
  const row = await trx.selectFrom("webhookKept").select("bytes").where("accountId", "=", account).executeTakeFirst();
  return Number(row?.bytes ?? 0);
}
