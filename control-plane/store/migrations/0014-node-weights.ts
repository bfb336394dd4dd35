import { type Kysely, sql } from "kysely";

/** Weights fetched ahead. Comments on columns stand in store/schema/node-weights.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table node_weights (
      prefetch_id text primary key,
      host_id text not null references host on delete cascade,
      repo text not null,
      revision text not null,
      file text not null,
      format text not null,
      pinned boolean not null,
      commit text not null default '',
      bytes bigint not null default 0,
      bytes_total bigint not null default 0,
      fail_code text not null default '',
      fail_message text not null default '',
      created_at timestamptz not null default now(),
      unique (host_id, repo, revision, file, format)
    )`.execute(db);
}
