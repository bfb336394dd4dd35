// Statistics of deployments, from usage records. A dedicated deployment is used by its owner only, so the account's index limits
// what is read; an offered one is read by the partitions of the period.
import { sql } from "kysely";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { endedAsAsked } from "../../../proto/usage.ts";
import type { DeploymentStatsStore, UseSeries } from "../../deployments/store.ts";
import { asked, tooLong } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";

interface UseRow {
  readonly requests: bigint;
  readonly errors: bigint;
  readonly input: string | null;
  readonly output: string | null;
  readonly totalMs: string | null;
  readonly avgMs: number | null;
  readonly p95Ms: number | null;
  readonly avgFirst: number | null;
  readonly p95First: number | null;
  readonly avgToken: number | null;
  readonly p95Token: number | null;
  readonly charge: string | null;
}

/** Statistics of one interval of the period, or of one end reason. */
interface PartRow {
  readonly part: number | null;
  readonly endReason: string | null;
  readonly requests: bigint;
  readonly errors: bigint;
  readonly output: string;
  readonly total: readonly [number, number];
  readonly first: readonly [number, number] | null;
  readonly queue: number;
}

const isFailed = sql<boolean>`end_reason not in (${sql.join(endedAsAsked)})`;

const tooLongToCount = tooLong("Counting these requests");

export function createDeploymentStatsStore(db: Db): DeploymentStatsStore {
  /** Rows of usage, as `u`, of the account's deployment in [fromMs, toMs). */
  async function usageOf(id: DeploymentId, account: AccountId, fromMs: number, toMs: number) {
    const offered = await db
      .selectFrom("publicModel")
      .select("modelName")
      .where("deployId", "=", id)
      .executeTakeFirst();
    const ofWhom = offered ? sql`true` : sql`u.account_id = ${account} and u.settled_at >= ${at(fromMs)}`;
    return sql<boolean>`u.deploy_id = ${id} and ${ofWhom} and not u.voided
      and u.admitted_at >= ${at(fromMs)} and u.admitted_at < ${at(toMs)}
      and exists (select from deployment d where d.deploy_id = ${id} and d.account_id = ${account})`;
  }

  return asked<DeploymentStatsStore>({
    async requests(account, fromMs, toMs) {
      const { rows } = await sql<{ modelName: string; requests: bigint }>`
        select d.model_name, count(*) as requests
        from usage u join deployment d using (deploy_id)
        where u.account_id = ${account} and d.account_id = ${account} and d.kind = 'model'
          and u.gpu_ms = 0 and not u.voided and u.settled_at >= ${at(fromMs)}
          and u.admitted_at >= ${at(fromMs)} and u.admitted_at < ${at(toMs)}
        group by 1 order by 2 desc, 1`
        .execute(db)
        .catch(tooLongToCount);
      return rows.map((row) => ({ modelName: row.modelName, requests: Number(row.requests) }));
    },

    async series(id, account, fromMs, toMs, steps) {
      const stepMs = (toMs - fromMs) / steps;
      const { rows } = await sql<PartRow>`
        select part, end_reason, count(*) as requests, sum(output_tokens) as output,
          percentile_cont(array[0.5, 0.95]) within group (order by total_ms) as total,
          percentile_cont(array[0.5, 0.95]) within group (order by first_byte_ms) filter (where first_byte_ms > 0) as first,
          percentile_cont(0.95) within group (order by queue_ms) as queue,
          count(*) filter (where ${isFailed}) as errors
        from (
          select u.*, least(${steps - 1}::int,
            floor((extract(epoch from u.admitted_at) * 1000 - ${fromMs}::float8) / ${stepMs}::float8)::int) as part
          from usage u where ${await usageOf(id, account, fromMs, toMs)} and u.gpu_ms = 0
        ) u group by grouping sets (part, end_reason)`
        .execute(db)
        .catch(tooLongToCount);
      const byPart = new Map(rows.flatMap((row) => (row.part === null ? [] : [[row.part, row] as const])));
      return {
        steps: Array.from({ length: steps }, (_, i) => partOf(fromMs + i * stepMs, byPart.get(i))),
        endReasons: rows
          .flatMap(({ endReason: reason, requests }) =>
            reason === null ? [] : [{ reason, requests: Number(requests) }],
          )
          .sort((a, b) => b.requests - a.requests || (a.reason < b.reason ? -1 : 1)),
      };
    },

    async use(id, account, fromMs, toMs) {
      const { rows } = await sql<UseRow>`
        select count(*) filter (where is_request) as requests,
          count(*) filter (where is_request and ${isFailed}) as errors,
          sum(input_tokens) as input, sum(output_tokens) as output,
          sum(total_ms) filter (where is_request) as total_ms,
          (avg(total_ms) filter (where is_request))::float8 as avg_ms,
          percentile_cont(0.95) within group (order by total_ms) filter (where is_request) as p95_ms,
          (avg(first_byte_ms) filter (where has_first))::float8 as avg_first,
          percentile_cont(0.95) within group (order by first_byte_ms) filter (where has_first) as p95_first,
          avg(per_token) as avg_token,
          percentile_cont(0.95) within group (order by per_token) as p95_token,
          sum(charge) as charge
        from (
          select u.*, u.gpu_ms = 0 as is_request, u.gpu_ms = 0 and u.first_byte_ms > 0 as has_first,
            case when u.output_tokens > 1 and u.first_byte_ms > 0
              then (u.total_ms - u.first_byte_ms)::float8 / (u.output_tokens - 1) end as per_token
          from usage u where ${await usageOf(id, account, fromMs, toMs)}
        ) u`
        .execute(db)
        .catch(tooLongToCount);
      const row = rows[0] as UseRow;
      return {
        requests: Number(row.requests),
        errors: Number(row.errors),
        inputTokens: Number(row.input ?? 0),
        outputTokens: Number(row.output ?? 0),
        totalMs: Number(row.totalMs ?? 0),
        averageMs: row.avgMs ?? 0,
        p95Ms: row.p95Ms ?? 0,
        averageFirstMs: row.avgFirst ?? 0,
        p95FirstMs: row.p95First ?? 0,
        averageTokenMs: row.avgToken ?? 0,
        p95TokenMs: row.p95Token ?? 0,
        chargeNano: BigInt(row.charge ?? 0),
      };
    },
  });
}

function partOf(fromMs: number, row: PartRow | undefined): UseSeries["steps"][number] {
  const pair = (both: readonly [number, number] | null | undefined) => (both ? { p50: both[0], p95: both[1] } : null);
  return {
    fromMs,
    requests: Number(row?.requests ?? 0),
    errors: Number(row?.errors ?? 0),
    outputTokens: Number(row?.output ?? 0),
    firstMs: pair(row?.first),
    totalMs: pair(row?.total),
    queueP95Ms: row?.queue ?? null,
  };
}

const at = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`;
