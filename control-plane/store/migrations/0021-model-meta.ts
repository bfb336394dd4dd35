import { type Kysely, sql } from "kysely";

/** What owners say of their models. Comments on columns stand in store/schema/model-meta.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table model_meta (
      account_id text not null references account,
      model_name text not null,
      description text not null default '',
      github_url text not null default '',
      paper_url text not null default '',
      license_url text not null default '',
      cover_image text not null default '',
      readme text not null default '',
      tags text[] not null default '{}',
      is_public boolean not null default false,
      is_featured boolean not null default false,
      deprecated_at timestamptz,
      sunset_at timestamptz,
      replaced_by text,
      updated_at timestamptz not null default now(),
      primary key (account_id, model_name)
    )`.execute(db);
}
