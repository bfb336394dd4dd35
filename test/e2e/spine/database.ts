// What a test reads straight from PostgreSQL: the record of truth, not what an endpoint says about it.
import pg from "pg";

export interface UsageRow {
  request_id: string;
  attempt: number;
  input_tokens: number;
  cached_input_tokens: number;
  output_tokens: number;
  source: string;
  end_reason: string;
  charge: number;
  voided: boolean;
}

export async function query<Row extends pg.QueryResultRow>(
  url: string,
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Every attempt of one request, by our own request id. */
export const usageOf = async (url: string, requestId: string) =>
  (await usageRows(url)).filter((row) => row.request_id === requestId);

export const usageRows = (url: string) =>
  query<UsageRow>(
    url,
    `select request_id, attempt, input_tokens::int, cached_input_tokens::int, output_tokens::int, source, end_reason,
            charge::float8 as charge, voided from usage order by settled_at, request_id, attempt`,
  );

/** The invariants of the ledger: it sums to 0, and no budget is above its limit. */
export async function ledgerFacts(
  url: string,
): Promise<{ sum: number; overspent: number; capturesPerRequest: number }> {
  const [sum] = await query<{ sum: number }>(url, "select coalesce(sum(amount), 0)::float8 as sum from ledger_entry");
  const [over] = await query<{ n: number }>(
    url,
    "select count(*)::int as n from budget where lim is not null and spent + leased > lim",
  );
  const [most] = await query<{ n: number }>(
    url,
    `select coalesce(max(n), 0)::int as n from
       (select count(*) as n from usage where not voided and charge > 0 group by request_id) per_request`,
  );
  return { sum: sum?.sum ?? Number.NaN, overspent: over?.n ?? -1, capturesPerRequest: most?.n ?? -1 };
}
