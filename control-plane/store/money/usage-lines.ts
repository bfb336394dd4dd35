import { sql } from "kysely";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import type { UsageLine } from "../../billing/store.ts";
import type { Db } from "../core/schema.ts";

export interface LineRow extends Omit<UsageLine, "key" | "discount"> {
  readonly month: number;
  readonly keyId: KeyId | "";
  readonly discountId: string | null;
  readonly discountName: string;
  readonly discountText: string;
}

type MonthLine = UsageLine & { readonly month: number };

/**
 * A sum of units, which are shown and never billed: limited to what a bigint holds, so that no record makes an account's pages or
 * its invoice fail.
 */
const shown = (sum: string) => sql.raw(`least(${sum}, 9223372036854775807)::bigint`);

/** Columns of a line besides its sums, from `lines` joined with `names`. */
const named = (account: AccountId) => sql`
  coalesce(cost, 0)::bigint as cost, coalesce(milli_units, 0)::bigint as milli_units,
  coalesce(d.task, 'text-generation') as task, coalesce(d.account_id = ${account}, false) as is_private,
  coalesce(pricing_type, 'tokens') as pricing_type, nullif(price_version, 0) as price_version,
  discount.discount_id, coalesce(discount.name, '') as discount_name, coalesce(discount.text, '') as discount_text`;
const names = sql`
  left join deployment d using (deploy_id) left join discount on discount.discount_id = lines.discount_id
  order by 1, 2, 3, 9, lines.discount_id`;

/**
 * The same as `ledgerLines` of whole months, first to last, from the sums that settlements keep: as many rows as the answer
 * has lines, however long the ledger is.
 */
export async function monthLines(db: Db, account: AccountId, first: number, last: number): Promise<MonthLine[]> {
  const { rows } = await sql<LineRow>`
    with sums as (
      -- Units whose price no entry names (they were free, or old) are on the line without one.
      select month, key_id, model, case when entries > 0 then price_version else 0 end as price_version,
        case when entries > 0 then discount_id else '' end as discount_id, cost,
        case when records > 0 then deploy_id end as deploy_id,
        case when gpu_ms > 0 then 'uptime' when characters > 0 then 'input_character_length'
          when audio_ms > 0 then 'input_length' when images > 0 then 'image_units' when records > 0 then 'tokens'
        end as pricing_type,
        case when gpu_ms > 0 then gpu_ms::numeric when characters > 0 then characters::numeric * 1000
          when audio_ms > 0 then audio_ms when images > 0 then image_milli else tokens::numeric * 1000 end as milli_units
      from usage_month
      where account_id = ${account} and month between ${first} and ${last} and (entries > 0 or records > 0)
    ), lines as (
      select month, key_id, model, price_version, discount_id, max(deploy_id) as deploy_id,
        max(pricing_type) as pricing_type, ${shown("sum(milli_units)")} as milli_units, sum(cost)::bigint as cost
      from sums group by 1, 2, 3, 4, 5
    )
    select month, key_id, lines.model, ${named(account)} from lines ${names}`.execute(db);
  return rows.map((row) => ({ month: row.month, ...lineOf(row) }));
}

/**
 * Use of an account by month, key, model and price in [fromMs, toMs), from every entry and record: what `monthLines` must equal. For
 * tests and support. Money is summed from the ledger, units from the records; both by time of posting.
 */
export async function ledgerLines(db: Db, account: AccountId, fromMs: number, toMs: number): Promise<MonthLine[]> {
  const from = new Date(fromMs).toISOString();
  const to = new Date(toMs).toISOString();
  const { rows } = await sql<LineRow>`
    with money as (
      select date_trunc('month', posted_at, 'UTC') as month, coalesce(key_id, '') as key_id, coalesce(model, '') as model,
        coalesce(price_version, 0) as price_version, coalesce(discount_id, '') as discount_id,
        sum(amount)::bigint as cost
      from ledger_entry
      where account_id = ${account} and book = 'customer_spent' and kind <> 'invoice'
        and posted_at >= ${from}::timestamptz and posted_at < ${to}::timestamptz
      group by 1, 2, 3, 4, 5
    ), counted as (
      select date_trunc('month', settled_at, 'UTC') as month, key_id, model, price_version,
        coalesce(discount_id, '') as discount_id, max(deploy_id) as deploy_id,
        case when sum(gpu_ms) > 0 then 'uptime' when sum(characters) > 0 then 'input_character_length'
          when sum(audio_ms) > 0 then 'input_length' when sum(images) > 0 then 'image_units' else 'tokens'
        end as pricing_type,
        case when sum(gpu_ms) > 0 then sum(gpu_ms) when sum(characters) > 0 then sum(characters) * 1000
          when sum(audio_ms) > 0 then sum(audio_ms) when sum(images) > 0 then sum(case when image_unit > 0 and image_pixel_steps > 0
              then image_pixel_steps * 1000 / image_unit else images * 1000 end)
          else sum(input_tokens + output_tokens) * 1000 end as milli_units
      from usage
      where account_id = ${account} and not voided
        and settled_at >= ${from}::timestamptz and settled_at < ${to}::timestamptz
      group by 1, 2, 3, 4, 5
    ), units as (
      -- Units whose price no entry names (they were free, or old) are on the line without one.
      select c.month, c.key_id, c.model, case when m.model is null then 0 else c.price_version end as price_version,
        case when m.model is null then '' else c.discount_id end as discount_id, max(c.deploy_id) as deploy_id,
        max(c.pricing_type) as pricing_type, ${shown("sum(c.milli_units)")} as milli_units
      from counted c left join money m using (month, key_id, model, price_version, discount_id)
      group by 1, 2, 3, 4, 5
    )
    select (extract(year from month at time zone 'UTC') * 12 + extract(month from month at time zone 'UTC') - 1)::int as month,
      key_id, lines.model, ${named(account)}
    from (money full join units using (month, key_id, model, price_version, discount_id)) lines
    ${names}`.execute(db);
  return rows.map((row) => ({ month: row.month, ...lineOf(row) }));
}

/** The stored lines of invoices, by invoice. */
export async function invoiceLines(db: Db, invoices: readonly string[]): Promise<Map<string, UsageLine[]>> {
  const lines = new Map<string, UsageLine[]>(invoices.map((invoice) => [invoice, []]));
  if (invoices.length === 0) return lines;
  const { rows } = await sql<LineRow & { invoiceId: string }>`
    select * from invoice_line where invoice_id = any(${[...invoices]}::text[])
    order by line_id`.execute(db);
  for (const row of rows) lines.get(row.invoiceId)?.push(lineOf(row));
  return lines;
}

export function lineOf({
  keyId: key,
  discountId,
  discountName,
  discountText,
  ...line
}: Omit<LineRow, "month">): UsageLine {
  const { model, task, isPrivate, pricingType, priceVersion, milliUnits, cost } = line;
  const discount = discountId === null ? null : { id: discountId, name: discountName, text: discountText };
  return { key, model, task, isPrivate, pricingType, priceVersion, discount, milliUnits, cost };
}
