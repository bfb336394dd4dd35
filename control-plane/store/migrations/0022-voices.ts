import { type Kysely, sql } from "kysely";

/** Voices of accounts and the recordings they were made from. Comments on columns stand in store/schema/voices.ts. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table voice (
      voice_id text primary key,
      account_id text not null references account,
      name text not null,
      description text not null,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      unique (account_id, name)
    )`.execute(db);
  await sql`
    create table voice_sample (
      voice_id text not null references voice on delete cascade,
      account_id text not null,
      place integer not null,
      content_type text not null,
      sealed bytea not null,
      primary key (voice_id, place)
    )`.execute(db);
  await sql`
    create table voice_blend (
      voice_id text not null references voice on delete cascade,
      account_id text not null,
      model text not null,
      blend text not null,
      measured jsonb not null,
      made_at timestamptz not null default now(),
      primary key (voice_id, model)
    )`.execute(db);
}
