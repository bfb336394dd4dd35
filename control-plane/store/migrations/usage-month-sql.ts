// What every settlement adds to the month's use of an account, and how that is made anew from ledger and usage. Written by
// the functions of settlement-functions.ts and settle-one-function.ts, under the lock of the account's budget.

/** Of a time; as billing/period.ts counts months. */
const monthOf = (at: string) =>
  `(extract(year from ${at} at time zone 'UTC') * 12 + extract(month from ${at} at time zone 'UTC') - 1)::integer`;

export const thisMonth = monthOf("now()");

const amounts = "records, entries, cost, tokens, gpu_ms, characters, audio_ms, images, image_milli";

export const usageMonthColumns = `account_id, month, key_id, model, price_version, discount_id, deploy_id, ${amounts}`;

/** Follows `insert into usage_month as m (${usageMonthColumns}) ...`. */
export const addToMonth = `
  on conflict (account_id, month, key_id, model, price_version, discount_id) do update set
    deploy_id = greatest(m.deploy_id, excluded.deploy_id),
    ${amounts
      .split(", ")
      .map((amount) => `${amount} = m.${amount} + excluded.${amount}`)
      .join(", ")}`;

/** Sums over rows of usage that count (not voided), in the order of the columns. */
const unitsOf = (sign: string, counts: string) => `
  coalesce(sum(${sign} * (input_tokens + output_tokens)) ${counts}, 0), coalesce(sum(${sign} * gpu_ms) ${counts}, 0),
  coalesce(sum(${sign} * characters) ${counts}, 0), coalesce(sum(${sign} * audio_ms) ${counts}, 0),
  coalesce(sum(${sign} * images) ${counts}, 0),
  coalesce(sum(${sign} * case when image_unit > 0 and image_pixel_steps > 0 then image_pixel_steps * 1000 / image_unit
    else images * 1000 end) ${counts}, 0)`;

/** New records: `rows` is of the usage table's type; each with a charge is one entry of the ledger. */
export const addRecords = (rows: string) => `
  insert into usage_month as m (${usageMonthColumns})
  select account_id, ${thisMonth}, key_id, model, price_version, coalesce(discount_id, ''), max(deploy_id),
    count(*) filter (where not voided), count(*) filter (where charge <> 0), sum(charge),
    ${unitsOf("1", "filter (where not voided)")}
  from ${rows} group by 1, 2, 3, 4, 5, 6 order by 1, 3, 4, 5, 6
  ${addToMonth}`;

/** Records that a later attempt voided, or that count again: in the month they were settled in. Before they are changed. */
export const flipRecords = (changed: string) => `
  insert into usage_month as m (${usageMonthColumns})
  select account_id, ${monthOf("settled_at")}, key_id, model, price_version, coalesce(discount_id, ''), max(deploy_id),
    sum(sign), 0, 0, ${unitsOf("sign", "")}
  from (
    select u.*, case when c.voided then -1 else 1 end as sign from usage u join ${changed} c
      on u.request_id = c.request_id and u.attempt = c.attempt and u.admitted_at = c.admitted_at and u.voided <> c.voided
  ) flipped group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  ${addToMonth}`;

/** Corrections: `entries` is of the ledger's type. */
export const addEntries = (entries: string) => `
  insert into usage_month as m (${usageMonthColumns})
  select account_id, ${thisMonth}, coalesce(key_id, ''), coalesce(model, ''), coalesce(price_version, 0),
    coalesce(discount_id, ''), '', 0, count(*), sum(amount), 0, 0, 0, 0, 0, 0
  from ${entries} where book = 'customer_spent' group by 1, 2, 3, 4, 5, 6 order by 1, 3, 4, 5, 6
  ${addToMonth}`;

/** All months anew. */
export const rebuildUsageMonths = `
  delete from usage_month;
  insert into usage_month as m (${usageMonthColumns})
  select account_id, ${monthOf("settled_at")}, key_id, model, price_version, coalesce(discount_id, ''), max(deploy_id),
    count(*), 0, 0, ${unitsOf("1", "")}
  from usage where not voided group by 1, 2, 3, 4, 5, 6;
  insert into usage_month as m (${usageMonthColumns})
  select account_id, ${monthOf("posted_at")}, coalesce(key_id, ''), coalesce(model, ''), coalesce(price_version, 0),
    coalesce(discount_id, ''), '', 0, count(*), sum(amount), 0, 0, 0, 0, 0, 0
  from ledger_entry where book = 'customer_spent' and kind <> 'invoice' group by 1, 2, 3, 4, 5, 6
  ${addToMonth};`;
