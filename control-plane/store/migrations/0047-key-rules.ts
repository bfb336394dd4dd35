import { type Kysely, sql } from "kysely";

/** What a key may do and how much: models, expiry, rates, role; and whether it passes on end users in headers. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table api_key
      add allowed_models text[],
      add expires_at timestamptz,
      add requests_per_minute integer check (requests_per_minute > 0),
      add tokens_per_minute double precision check (tokens_per_minute > 0),
      add role text not null default 'admin' check (role in ('admin', 'read', 'inference')),
      add trusts_user_headers boolean not null default false`.execute(db);
}
