import { type Kysely, sql } from "kysely";

/** Names that stand for one or several models: an account's own, or an operator's for every account (account_id null). */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table model_alias (
      account_id text references account (account_id),
      name text not null,
      targets jsonb not null,
      fallbacks jsonb not null,
      is_sticky boolean not null,
      updated_at timestamptz not null default now(),
      unique nulls not distinct (account_id, name)
    )`.execute(db);
}
