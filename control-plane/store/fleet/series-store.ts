// Time series in two tables, each with rows of three lengths. Rows of a period that ended never change, so every write may be repeated and
// run in several control planes at once.
import { type RawBuilder, sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type {
  GpuPoint,
  HostPoint,
  LiveFigures,
  LiveFleet,
  RequestPoint,
  SeriesStore,
  Window,
} from "../../series/store.ts";
import { inTransaction } from "../core/database.ts";
import { asked, tooLong } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { interval } from "../core/time.ts";
import { hostSamples } from "./host-samples.ts";

const minuteMs = 60_000;
/** Time after a period until all control planes have written its minutes, and the shorter rows of its end exist. */
const rolled = [
  { from: 1, to: 10, waitMs: 2 * minuteMs },
  { from: 10, to: 360, waitMs: 15 * minuteMs },
] as const;
/** Statements that a roll-up of requests is divided into, each within the time limit of a statement. */
const slices = 8;
/** A ledger entry is visible at most this long after its time. */
const ledgerWaitMs = 15_000;
const tables = ["request_series", "host_series"] as const;
type Table = (typeof tables)[number];

export function createSeriesStore(db: Db): SeriesStore {
  return asked<SeriesStore>({
    async writeRequests(replica, rows) {
      if (rows.length === 0) return;
      const written = rows.map(({ atMs, account, model, sums }) => ({
        account_id: account,
        model,
        at_ms: atMs,
        requests: sums.requests,
        client_errors: sums.clientErrors,
        server_errors: sums.serverErrors,
        aborted: sums.aborted,
        input_tokens: sums.inputTokens,
        output_tokens: sums.outputTokens,
        first_ms: sums.firstMs,
        total_ms: sums.totalMs,
      }));
      await sql`
        insert into request_series (account_id, model, step, at, replica_id, requests, client_errors, server_errors, aborted, input_tokens,
          output_tokens, first_ms, total_ms)
        select account_id, model, 1, to_timestamp(at_ms / 1000), ${replica}, requests, client_errors, server_errors, aborted, input_tokens,
          output_tokens, first_ms, total_ms
        from jsonb_to_recordset(${JSON.stringify(written)}::jsonb) as r (account_id text, model text, at_ms float8, requests bigint,
          client_errors bigint, server_errors bigint, aborted bigint, input_tokens bigint, output_tokens bigint, first_ms integer[],
          total_ms integer[])
        on conflict (account_id, model, step, at, replica_id) do update set requests = excluded.requests,
          client_errors = excluded.client_errors, server_errors = excluded.server_errors, aborted = excluded.aborted,
          input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, first_ms = excluded.first_ms,
          total_ms = excluded.total_ms`.execute(db);
    },

    async sampleHosts(freshMs) {
      await sql`
        ${hostSamples(freshMs)}
        insert into host_series (host_id, step, at, gpus, gpus_held, gpu_use, gpu_memory_used, gpu_memory_total, gpu_power_watts,
          gpu_temperature, cpu_use, memory_used, running, waiting, gpu_samples)
        select host_id, 1, date_trunc('minute', now()), gpus, gpus_held, gpu_use, gpu_memory_used, gpu_memory_total, gpu_power_watts,
          gpu_temperature, cpu_use, memory_used, running, waiting, gpu_samples from sample
        union all
        select '', 1, date_trunc('minute', now()), ${together}, '[]' from sample having count(*) > 0
        on conflict do nothing`.execute(db);
    },

    async live(accounts) {
      const { rows } = await sql<LiveFigures & { account: AccountId | "" }>`
        select account_id as account, (60 + extract(epoch from now() - date_trunc('minute', now())))::float8 as seconds,
          sum(requests)::float8 as requests, sum(client_errors + server_errors)::float8 as errors,
          sum(output_tokens)::float8 as output_tokens, sum_counts(first_ms) as first_ms
        from request_series
        where account_id = any(${[...accounts]}::text[]) and model = '' and step = 1
          and at >= date_trunc('minute', now()) - interval '1 minute'
        group by account_id`.execute(db);
      return new Map(rows.map(({ account, ...figures }) => [account, figures]));
    },

    async liveFleet(freshMs) {
      const { rows } = await sql<LiveFleet>`
        ${hostSamples(freshMs)}, everything (gpus, gpus_held, gpu_use, gpu_memory_used, gpu_memory_total, gpu_power_watts, gpu_temperature,
          cpu_use, memory_used, running, waiting) as (select ${together} from sample having count(*) > 0)
        select gpus::float8, gpus_held::float8, gpu_use::float8, gpu_memory_used::float8, gpu_memory_total::float8,
          gpu_power_watts::float8, running::float8, waiting::float8 from everything`.execute(db);
      return rows[0];
    },

    async writeSpend() {
      const newest = sql`(select max(at) from request_series
        where account_id = '' and model = '' and step = 1 and replica_id = 'ledger')`;
      const charged = sql`book = 'customer_spent' and kind <> 'invoice'`;
      const ended = sql`date_trunc('minute', now() - ${interval(ledgerWaitMs)})`;
      for (;;) {
        // Before the first row: only what was charged since this version started.
        const { rows } = await sql<{ first: Date | null }>`
          select date_trunc('minute', min(posted_at)) as first from ledger_entry where ${charged} and posted_at < ${ended}
            and posted_at >= coalesce(${newest} + interval '1 minute', date_trunc('minute', now()) - interval '10 minutes')`.execute(
          db,
        );
        const first = rows[0]?.first?.toISOString();
        if (first === undefined) return;
        await sql`
          insert into request_series (account_id, model, step, at, replica_id, spend)
          select coalesce(account_id, ''), coalesce(model, ''), 1, at, 'ledger', sum(amount)::bigint from (
            select account_id, coalesce(model, '') as model, date_trunc('minute', posted_at) as at, amount from ledger_entry
            where ${charged} and posted_at >= ${first}::timestamptz and posted_at < ${first}::timestamptz + interval '10 minutes'
              and posted_at < ${ended}
          ) posted
          group by grouping sets ((at, account_id, model), (at, account_id), (at, model), (at))
          having not (grouping(model) = 0 and model = '')
          on conflict do nothing`.execute(db);
      }
    },

    async rollUp() {
      for (const table of tables) for (const one of rolled) await rollUp(db, table, one);
    },

    async deleteOld(resolution, olderMs, limit) {
      const deleted = tables.map(async (table) => {
        const of = sql.table(table);
        const { numAffectedRows } = await sql`
          delete from ${of} where ctid in (
            select ctid from ${of} where step = ${resolution} and at < now() - ${interval(olderMs)} limit ${limit})`.execute(
          db,
        );
        return Number(numAffectedRows ?? 0n);
      });
      return Math.max(...(await Promise.all(deleted)));
    },

    async requests({ account, model, by, limit }, window) {
      const label = by === "account" ? sql.ref("account_id") : by === "model" ? sql.ref("model") : sql`''`;
      const { rows } = await sql<RequestPoint>`
        with picked as (
          select ${label} as label, ${pointOf(window)} as at_ms, requests, client_errors, server_errors, aborted, input_tokens, output_tokens,
            spend, first_ms, total_ms
          from request_series
          where ${by === "account" ? sql`account_id <> ''` : sql`account_id = ${account ?? ""}`}
            and ${by === "model" ? sql`model <> ''` : sql`model = ${model ?? ""}`} and ${await rowsOf(db, "request_series", window)}
        ), shown as (
          select label from picked group by label order by sum(requests) desc, sum(spend) desc, label limit ${limit}
        )
        select at_ms, label, ${by === "account" ? sql`(select email from account where account_id = label)` : sql`null`} as name,
          sum(requests)::float8 as requests, sum(client_errors)::float8 as client_errors,
          sum(server_errors)::float8 as server_errors, sum(aborted)::float8 as aborted, sum(input_tokens)::float8 as input_tokens,
          sum(output_tokens)::float8 as output_tokens, sum(spend)::bigint as spend, sum_counts(first_ms) as first_ms,
          sum_counts(total_ms) as total_ms
        from picked join shown using (label) group by at_ms, label order by at_ms, label`
        .execute(db)
        .catch(tooLong("Reading this series"));
      return rows;
    },

    async hosts(by, host, limit, window) {
      const { rows } = await sql<HostPoint>`
        with picked as (
          select *, ${pointOf(window)} as at_ms from host_series
          where ${by === "fleet" ? sql`host_id = ''` : host === undefined ? sql`host_id <> ''` : sql`host_id = ${host}`}
            and ${await rowsOf(db, "host_series", window)}
        ), shown as (
          select host_id from picked group by host_id order by avg(gpu_use) desc nulls last, host_id limit ${limit}
        )
        select at_ms, host_id as host, (select hostname from host h where h.host_id = picked.host_id) as name, ${means} from picked join shown using (host_id) group by at_ms, host_id order by at_ms, host_id`
        .execute(db)
        .catch(tooLong("Reading this series"));
      return rows;
    },

    async gpus(host, window) {
      const { rows } = await sql<GpuPoint>`
        select ${pointOf(window)} as at_ms, g->>0 as gpu, avg((g->>1)::float8) as use, avg((g->>2)::float8) as memory_used,
          avg((g->>3)::float8) as power_watts, max((g->>4)::float8) as temperature
        from host_series, jsonb_array_elements(gpu_samples) g
        where host_id = ${host} and ${await rowsOf(db, "host_series", window)}
        group by 1, 2 order by 1, 2`
        .execute(db)
        .catch(tooLong("Reading this series"));
      return rows;
    },
  });
}

/** Figures of all hosts, in the order of the columns of host_series. */
const together = sql`sum(gpus), sum(gpus_held), sum(gpu_use * gpus) / nullif(sum(gpus) filter (where gpu_use is not null), 0),
  sum(gpu_memory_used), sum(gpu_memory_total), sum(gpu_power_watts), max(gpu_temperature), avg(cpu_use), sum(memory_used), sum(running),
  sum(waiting)`;

const means = sql`avg(gpus)::float8 as gpus, avg(gpus_held)::float8 as gpus_held, avg(gpu_use)::float8 as gpu_use,
  avg(gpu_memory_used)::float8 as gpu_memory_used, avg(gpu_memory_total)::float8 as gpu_memory_total,
  avg(gpu_power_watts)::float8 as gpu_power_watts, max(gpu_temperature)::float8 as gpu_temperature, avg(cpu_use)::float8 as cpu_use,
  avg(memory_used)::float8 as memory_used, avg(running)::float8 as running, max(waiting)::float8 as waiting`;

const epoch = sql`timestamptz '1970-01-01 00:00:00+00'`;
const at = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`;
const minutes = (count: number) => interval(count * minuteMs);

const pointOf = ({ stepMs }: Window) =>
  sql`(extract(epoch from date_bin(${interval(stepMs)}, at, ${epoch})) * 1000)::float8`;

/** Condition for the rows of a window: the longest that its resolution allows, and shorter ones for periods that are not rolled up yet. */
async function rowsOf(db: Db, table: Table, { fromMs, toMs, resolution }: Window): Promise<RawBuilder<boolean>> {
  const parts: RawBuilder<unknown>[] = [];
  let from = fromMs;
  for (const step of [360, 10] as const) {
    if (step > resolution) continue;
    const { rows } = await sql<{ until: Date | null }>`
      select max(at) + ${minutes(step)} as until from ${sql.table(table)} where step = ${step}`.execute(db);
    const until = rows[0]?.until?.getTime() ?? 0;
    if (until <= from) continue;
    parts.push(sql`(step = ${step} and at >= ${at(from)} and at < ${at(Math.min(until, toMs))})`);
    from = until;
  }
  parts.push(sql`(step = 1 and at >= ${at(from)} and at < ${at(toMs)})`);
  return sql<boolean>`(${sql.join(parts, sql` or `)})`;
}

async function rollUp(db: Db, table: Table, { from, to, waitMs }: (typeof rolled)[number]): Promise<void> {
  const of = sql.table(table);
  const period = (time: RawBuilder<unknown>) => sql`date_bin(${minutes(to)}, ${time}, ${epoch})`;
  const ended = period(sql`now() - ${interval(waitMs)}`);
  for (;;) {
    const { rows } = await sql<{ first: Date | null }>`
      select ${period(sql`min(at)`)} as first from ${of} where step = ${from} and at < ${ended}
        and at >= coalesce((select max(at) from ${of} where step = ${to}) + ${minutes(to)}, '-infinity')`.execute(db);
    const first = rows[0]?.first?.getTime();
    if (first === undefined) return;
    const part = sql`step = ${from} and at >= ${at(first)} and at < ${at(first + to * minuteMs)}`;
    // A transaction, because a period with a row counts as rolled up.
    await inTransaction(db, async (trx) => {
      if (table === "host_series") await rollHosts(part, to, period(sql`at`)).execute(trx);
      else
        for (let n = 0; n < slices; n += 1)
          await rollRequests(sql`${part} and ${sliceOf} = ${n}`, to, period(sql`at`)).execute(trx);
    });
  }
}

const sliceOf = sql`(hashtext(account_id || model) & ${slices - 1})`;

const rollRequests = (part: RawBuilder<unknown>, to: number, period: RawBuilder<unknown>) => sql`
  insert into request_series (account_id, model, step, at, replica_id, requests, client_errors, server_errors, aborted, input_tokens, output_tokens,
    spend, first_ms, total_ms)
  select account_id, model, ${to}::smallint, ${period} as period, '', sum(requests), sum(client_errors), sum(server_errors), sum(aborted),
    sum(input_tokens), sum(output_tokens), sum(spend), sum_counts(first_ms), sum_counts(total_ms)
  from request_series where ${part} group by account_id, model, period on conflict do nothing`;

const rollHosts = (part: RawBuilder<unknown>, to: number, period: RawBuilder<unknown>) => sql`
  with picked as (select *, ${period} as period from host_series where ${part}), samples as (
    select host_id, period, jsonb_agg(sample) as gpu_samples from (
      select host_id, period, jsonb_build_array(g->>0, avg((g->>1)::float8), avg((g->>2)::float8), avg((g->>3)::float8),
        max((g->>4)::float8)) as sample
      from picked, jsonb_array_elements(gpu_samples) g group by host_id, period, g->>0
    ) each group by host_id, period
  )
  insert into host_series (host_id, step, at, gpus, gpus_held, gpu_use, gpu_memory_used, gpu_memory_total, gpu_power_watts, gpu_temperature,
    cpu_use, memory_used, running, waiting, gpu_samples)
  select p.*, coalesce(s.gpu_samples, '[]') from (
    select host_id, ${to}::smallint as step, period, ${means} from picked group by host_id, period
  ) p left join samples s using (host_id, period) on conflict do nothing`;
