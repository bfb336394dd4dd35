import { type Kysely, sql } from "kysely";

/**
 * Usage holds the HTTP status of the host's response, and has indexes for the request log by key, by end user and by outcome. A month of
 * millions of rows is not indexed, because settlements would wait: its requests are found by account and time, as before.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table usage add http_status integer not null default 0`.execute(db);
  await sql.raw(defaults).execute(db);
  await sql.raw(indexes).execute(db);
}

const defaults = `
create or replace function usage_defaults() returns usage language sql immutable return json_populate_record(null::usage,
  '{"characters":0,"audio_ms":0,"images":0,"image_pixel_steps":0,"items":0,"gpu_ms":0,"character_rate":0,"audio_rate":0,"image_rate":0,
    "image_unit":0,"charge":0,"voided":false,"http_status":0}');
`;

const indexes = `
create index usage_by_key on only usage (key_id, settled_at) where gpu_ms = 0;
create index usage_by_end_user on only usage (end_user, settled_at) where end_user is not null;
create index usage_by_outcome on only usage (account_id, settled_at) where end_reason <> 'stop';

do $$
declare part regclass; parent text; rest text;
begin
  for part in select inhrelid::regclass from pg_inherits where inhparent = 'usage'::regclass loop
    continue when pg_relation_size(part) > 512 * 1024 * 1024;
    for parent, rest in values
      ('usage_by_key', '(key_id, settled_at) where gpu_ms = 0'),
      ('usage_by_end_user', '(end_user, settled_at) where end_user is not null'),
      ('usage_by_outcome', '(account_id, settled_at) where end_reason <> ''stop''')
    loop
      -- Without a name of ours it has the one that PostgreSQL gives to those of later months.
      execute format('create index on %s %s', part, rest);
      execute format('alter index %I attach partition %s', parent,
        (select indexrelid::regclass from pg_index where indrelid = part order by indexrelid desc limit 1));
    end loop;
  end loop;
end $$;
`;
