import { type Kysely, sql } from "kysely";

/** Mails with a link that is made when they are sent, and the address to which a ticket was mailed. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table mail add column link text check (link in ('verify_email', 'reset_password'))`.execute(db);
  await sql`alter table sign_in_challenge add column email text`.execute(db);
}
