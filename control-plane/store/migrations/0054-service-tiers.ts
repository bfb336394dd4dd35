import { type Kysely, sql } from "kysely";

/** Service tiers: who may use `priority`, prices of tiers, the tier of usage, and the names of tiers on bills. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table account add may_prioritize boolean not null default false`.execute(db);
  await sql`
    alter table price add priority_percent integer not null default 100 check (priority_percent between 0 and 10000),
      add flex_percent integer not null default 100 check (flex_percent between 0 and 10000)`.execute(db);
  await sql`alter table usage add service_tier text`.execute(db);
  // They ended before they began: they lower no price.
  await sql`
    insert into discount (discount_id, name, text, basis_points, effective_from, effective_to)
    select id, name, '', 1, 'epoch', 'epoch'
    from (values ('priority', 'Priority tier'), ('flex', 'Flex tier'), ('batch', 'Batch')) tier (id, name)`.execute(db);
}
