// Notes of the backups of this database, which the commands that create and verify them write.
import { sql } from "kysely";
import type { BackupNotes, DatabaseBackup } from "../../oversight/store.ts";
import { asked } from "./outage.ts";
import type { Db } from "./schema.ts";

const maxKept = 1000;

export const createBackupNotes = (db: Db): BackupNotes =>
  asked<BackupNotes>({
    list: async (limit) => {
      const rows = await db.selectFrom("databaseBackup").selectAll().orderBy("takenAt", "desc").limit(limit).execute();
      return rows.map(
        ({ rowCount, sizeBytes, ...one }): DatabaseBackup => ({
          ...one,
          rows: Number(rowCount),
          sizeBytes: Number(sizeBytes),
        }),
      );
    },
  });

/** Does nothing in a database whose schema is older than this version, as before an upgrade, or that has none. */
export async function noteBackup(db: Db, { rows, sizeBytes, ...one }: DatabaseBackup): Promise<void> {
  const { rows: found } = await sql<{ isThere: boolean }>`
    select to_regclass('public.database_backup') is not null as "isThere"`.execute(db);
  if (!found[0]?.isThere) return;
  const values = { ...one, rowCount: BigInt(rows), sizeBytes: BigInt(sizeBytes) };
  await db
    .insertInto("databaseBackup")
    .values(values)
    .onConflict((at) => at.column("file").doUpdateSet(values))
    .execute();
  await sql`
    delete from database_backup where file in (select file from database_backup order by taken_at desc offset ${maxKept})`.execute(
    db,
  );
}
