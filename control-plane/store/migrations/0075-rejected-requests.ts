import { type Kysely, sql } from "kysely";

/** Requests of known accounts that ended with an error before a host recorded them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table rejected_request (
      request_id text primary key,
      account_id text not null,
      key_id text not null,
      at timestamptz not null,
      model text not null,
      route text not null,
      status smallint not null,
      code text not null,
      label text,
      others integer not null default 0
    )`.execute(db);
  await sql`create index rejected_request_account on rejected_request (account_id, at desc, request_id desc)`.execute(
    db,
  );
  await sql`create index rejected_request_label on rejected_request (account_id, label) where label is not null`.execute(
    db,
  );
  await sql`create index rejected_request_at on rejected_request (at)`.execute(db);
}
