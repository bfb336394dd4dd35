import { type Kysely, sql } from "kysely";

/**
 * Sealed usage by account and month, the keys that sign it, and statements of closed months. The job `seal-usage` fills them. Large months of
 * the ledger get no index of their corrections, because settlements would wait: these are found by account and time.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql.raw(text).execute(db);
  await sql.raw(corrections).execute(db);
}

const text = `
create table invoice_key (
  version integer primary key check (version > 0),
  public_key bytea not null check (octet_length(public_key) = 32),
  sealed_key bytea not null,
  -- By the version before.
  signature bytea,
  created_at timestamptz not null
);

-- Of a segment. PostgreSQL computes them, and the segment is signed elsewhere: in a table of their own they are not transferred for it.
create table usage_digests (
  account_id text not null references account,
  month integer not null,
  segment integer not null check (segment > 0),
  digests bytea not null check (octet_length(digests) % 32 = 0),
  primary key (account_id, month, segment)
);
-- Digests do not compress.
alter table usage_digests alter column digests set storage external;
create trigger usage_digests_append_only before update or delete or truncate on usage_digests
  for each statement execute function refuse_change();

create table usage_segment (
  account_id text not null references account,
  month integer not null,
  segment integer not null check (segment > 0),
  records integer not null,
  corrections integer not null,
  charged bigint not null,
  through_at timestamptz not null,
  hash bytea not null check (octet_length(hash) = 32),
  key_version integer not null references invoice_key,
  signature bytea not null,
  sealed_at timestamptz not null default now(),
  primary key (account_id, month, segment),
  foreign key (account_id, month, segment) references usage_digests
);
create trigger usage_segment_append_only before update or delete or truncate on usage_segment
  for each statement execute function refuse_change();

create table invoice_statement (
  account_id text not null references account,
  month integer not null,
  -- Null: nothing was to pay.
  invoice_id text references invoice,
  text text not null,
  key_version integer not null references invoice_key,
  signature bytea not null,
  created_at timestamptz not null default now(),
  primary key (account_id, month)
);
create trigger invoice_statement_append_only before update or delete or truncate on invoice_statement
  for each statement execute function refuse_change();
`;

// The ledger itself is locked last: settlements insert through it.
const corrections = `
do $$
declare part regclass; made regclass[] := '{}'; built regclass;
begin
  for part in select inhrelid::regclass from pg_inherits where inhparent = 'ledger_entry'::regclass order by inhrelid::regclass::text loop
    continue when pg_relation_size(part) > 32 * 1024 * 1024;
    execute format('create index on %s (account_id, posted_at) where kind = ''correction'' and book = ''customer_spent''', part);
    select indexrelid::regclass into built from pg_index where indrelid = part order by indexrelid desc limit 1;
    made := made || built;
  end loop;
  create index ledger_entry_correction on only ledger_entry (account_id, posted_at)
    where kind = 'correction' and book = 'customer_spent';
  foreach built in array made loop
    execute format('alter index ledger_entry_correction attach partition %s', built);
  end loop;
end $$;
`;
