import { type Kysely, sql } from "kysely";

/**
 * Time series of requests and hosts. A row holds the sums or means of `step` minutes from `at` on: 1, 10 or 360. Sums of a minute are
 * written by each control plane (`replica_id`), and what was charged by `ledger`.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table request_series (
      account_id text not null,
      model text not null,
      step smallint not null,
      at timestamptz not null,
      replica_id text not null,
      requests bigint not null default 0,
      client_errors bigint not null default 0,
      server_errors bigint not null default 0,
      aborted bigint not null default 0,
      input_tokens bigint not null default 0,
      output_tokens bigint not null default 0,
      spend bigint not null default 0,
      first_ms integer[] not null default '{}',
      total_ms integer[] not null default '{}',
      primary key (account_id, model, step, at, replica_id)
    )`.execute(db);
  await sql`create index request_series_at on request_series (step, at)`.execute(db);

  await sql`
    create table host_series (
      host_id text not null,
      step smallint not null,
      at timestamptz not null,
      gpus double precision not null,
      gpus_held double precision not null,
      gpu_use double precision,
      gpu_memory_used double precision,
      gpu_memory_total double precision,
      gpu_power_watts double precision,
      gpu_temperature double precision,
      cpu_use double precision,
      memory_used double precision,
      running double precision not null,
      waiting double precision not null,
      gpu_samples jsonb not null default '[]',
      primary key (host_id, step, at)
    )`.execute(db);
  await sql`create index host_series_at on host_series (step, at)`.execute(db);

  await sql`
    create function add_counts(sums integer[], more integer[]) returns integer[] language sql immutable parallel safe
      return array(select coalesce(a, 0) + coalesce(b, 0) from unnest(sums, more) as pair (a, b))`.execute(db);
  // A host reports any number.
  await sql`
    create function host_figure(reported jsonb) returns double precision language sql immutable parallel safe
      return least(greatest((reported #>> '{}')::double precision, 0), 1e15)`.execute(db);
  await sql`create aggregate sum_counts(integer[]) (sfunc = add_counts, stype = integer[], initcond = '{}')`.execute(
    db,
  );
}
