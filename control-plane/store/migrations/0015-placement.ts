import { type Kysely, sql } from "kysely";

/** What models took of their GPUs. Comments on columns stand in store/schema/placement.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table measured_memory (
      version text not null,
      engine text not null,
      gpu text not null,
      settings text not null,
      peak_bytes bigint not null,
      expected_bytes bigint not null,
      looks integer not null default 1,
      measured_at timestamptz not null default now(),
      primary key (version, engine, gpu, settings)
    )`.execute(db);
}
