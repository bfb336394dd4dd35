// Limits the bytes of results that an account's webhook calls store: discards the oldest ended ones first, delivered ones before
// exhausted ones. Their records stay.
import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { Db, Trx } from "../core/schema.ts";

/** Share of the limit to reduce to, so that not every call has to search for the oldest. */
const keptShare = 0.9;

/** Call it in the transaction that stored another result. */
export async function discardOldResults(trx: Trx, account: AccountId, maxBytes: number): Promise<void> {
  const kept = await keptBytes(trx, account);
  if (kept <= maxBytes) return;
  // Locked rows are being replayed or deleted, and their transaction may wait for this one.
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

/** True when pending calls alone use all of it: nothing can be discarded. */
export async function isFullOfPending(trx: Db, account: AccountId, maxBytes: number): Promise<boolean> {
  if ((await keptBytes(trx, account)) < maxBytes) return false;
  const { rows } = await sql<{ bytes: bigint | null }>`
    select sum(octet_length(body) + coalesce(octet_length(results), 0))::bigint as bytes from webhook_delivery
    where account_id = ${account} and state = 'pending'`.execute(trx);
  return Number(rows[0]?.bytes ?? 0) >= maxBytes;
}

/** Bytes of all accounts. */
export async function allKeptBytes(db: Db): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(bytes), 0)::float8 as bytes from webhook_kept`.execute(db);
  return rows[0]?.bytes ?? 0;
}

async function keptBytes(trx: Db, account: AccountId): Promise<number> {
  const row = await trx.selectFrom("webhookKept").select("bytes").where("accountId", "=", account).executeTakeFirst();
  return Number(row?.bytes ?? 0);
}
