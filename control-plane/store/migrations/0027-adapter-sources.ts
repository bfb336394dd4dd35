import { type Kysely, sql } from "kysely";

/** Adapters of one file: from a repository or a URL, which is sealed as their token is. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table adapter
      add column source text not null default 'huggingface' check (source in ('huggingface', 'civitai', 'url')),
      add column file text not null default '',
      add column url bytea,
      add column "commit" text not null default '',
      add column room_made_at timestamptz`.execute(db);
}
