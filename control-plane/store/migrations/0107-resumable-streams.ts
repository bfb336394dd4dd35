import { type Kysely, sql } from "kysely";

/** Responses that are streamed under an idempotency key and can be continued after a broken connection. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw(text).execute(db);
}

const text = `
alter table idempotency add stream_id text, add started_at timestamptz, add runs int not null default 0, add read_at timestamptz,
  add constraint idempotency_stream unique (stream_id);

create table stream_piece (
  stream_id text not null references idempotency (stream_id) on delete cascade,
  seq int not null,
  -- Sealed with the account's data key.
  data bytea not null,
  primary key (stream_id, seq)
);
`;
