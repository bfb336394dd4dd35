import { type Kysely, sql } from "kysely";

/** Counts changes of an account's password, so that a sign-in by an earlier one opens no session, and notes accounts with a proven owner. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table account add column sign_in_epoch integer not null default 0, add column was_verified boolean not null default false`.execute(
    db,
  );
  await sql`update account set was_verified = true where email_verified`.execute(db);
  await sql`alter table sign_in_challenge add column epoch integer`.execute(db);
}
