import { type Kysely, sql } from "kysely";

/**
 * The oldest migration that a control plane must know to work on this schema. Older control planes refuse to start. A migration
 * that removes or renames something raises it to the migration of the release that stopped using it.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table schema_requirement (
      is_only boolean primary key default true check (is_only),
      migration text not null
    )`.execute(db);
  await sql`insert into schema_requirement (migration) values ('0041-baseline')`.execute(db);
}
