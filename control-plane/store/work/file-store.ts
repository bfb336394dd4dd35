import { sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { Blob, FileStore } from "../../files/store.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { epochMs, interval, now } from "../core/time.ts";

/** An unfinished upload is removed after this. */
const unfinishedLife = "1 day";

/** Columns of a StoredFile. */
const fileColumns = [
  "fileId as id",
  "accountId as account",
  "purpose",
  "filename",
  sql<number>`bytes::float8`.as("bytes"),
  epochMs("createdAt").as("createdAtMs"),
  epochMs("expiresAt").as("expiresAtMs"),
] as const;

export function createFileStore(db: Db): FileStore {
  const shown = (account: AccountId) =>
    db
      .selectFrom("file")
      .select(fileColumns)
      .where("accountId", "=", account)
      .where("isReady", "=", true)
      .where("removedAt", "is", null)
      .where("expiresAt", ">", now);

  return asked<FileStore>({
    async begin({ account, id, blobKey }) {
      await db
        .insertInto("file")
        .values({
          fileId: id,
          accountId: account,
          blobKey,
          expiresAt: sql<Date>`now() + ${unfinishedLife}::interval`,
        })
        .execute();
    },

    finish({ account, id, filename, bytes, expiresAfterMs }, quotaBytes) {
      return inTransaction(db, async (trx) => {
        // Serialised per account, so that concurrent uploads together stay within the quota.
        await sql`select pg_advisory_xact_lock(hashtextextended(${`files/${account}`}, 0))`.execute(trx);
        const { used } = await trx
          .selectFrom("file")
          .select((of) => of.fn.coalesce(of.fn.sum<string>("bytes"), sql<string>`'0'`).as("used"))
          .where("accountId", "=", account)
          .where("isReady", "=", true)
          .where("removedAt", "is", null)
          .where("expiresAt", ">", now)
          .executeTakeFirstOrThrow();
        if (Number(used) + bytes > quotaBytes) return Number(used);
        return trx
          .updateTable("file")
          .set({
            purpose: "batch",
            filename,
            bytes: BigInt(bytes),
            isReady: true,
            createdAt: now,
            expiresAt: sql<Date>`now() + ${interval(expiresAfterMs)}`,
          })
          .where("accountId", "=", account)
          .where("fileId", "=", id)
          .where("removedAt", "is", null)
          .returning(fileColumns)
          .executeTakeFirstOrThrow();
      });
    },

    find: (account, id) => shown(account).select("blobKey").where("fileId", "=", id).executeTakeFirst(),

    async inputBlob(account, id) {
      const row = await db
        .selectFrom("file")
        .select("blobKey")
        .where("accountId", "=", account)
        .where("fileId", "=", id)
        .where("isReady", "=", true)
        .where(({ exists, selectFrom }) =>
          exists(
            selectFrom("batch")
              .select("batchId")
              .whereRef("inputFileId", "=", "fileId")
              .where("status", "in", ["validating", "in_progress", "finalizing", "cancelling"]),
          ),
        )
        .executeTakeFirst();
      return row?.blobKey;
    },

    async list(account, purpose, { after, order, limit }) {
      let rows = shown(account)
        .orderBy("createdAt", order)
        .orderBy("fileId", order)
        .limit(limit + 1);
      if (purpose !== undefined) rows = rows.where("purpose", "=", purpose);
      if (after !== undefined) {
        const cursor = await shown(account).where("fileId", "=", after).executeTakeFirst();
        if (!cursor) return undefined;
        // Compared in the database, because a time in JavaScript has no microseconds.
        const at = sql`(select c.created_at, c.file_id from file c where c.file_id = ${after})`;
        rows = rows.where(
          order === "asc" ? sql<boolean>`(created_at, file_id) > ${at}` : sql<boolean>`(created_at, file_id) < ${at}`,
        );
      }
      const found = await rows.execute();
      return { files: found.slice(0, limit), hasMore: found.length > limit };
    },

    async remove(account, id) {
      const { rows } = await sql<{ fileId: string; reader: string | null }>`
        with known as (
          select file_id, (select batch_id from batch where input_file_id = file_id
            and status in ('validating', 'in_progress', 'finalizing', 'cancelling') limit 1) as reader
          from file where account_id = ${account} and file_id = ${id} and is_ready and removed_at is null
            and expires_at > now() for update of file),
        removed as (
          update file set removed_at = now() from known where file.file_id = known.file_id and reader is null)
        select file_id, reader from known`.execute(db);
      const [row] = rows;
      if (!row) return "unknown";
      return row.reader === null ? "removed" : { readBy: row.reader };
    },

    async abandon(account, id) {
      await db
        .updateTable("file")
        .set({ removedAt: now })
        .where("accountId", "=", account)
        .where("fileId", "=", id)
        .where("isReady", "=", false)
        .execute();
    },

    async due(limit) {
      const { rows } = await sql<Blob>`
        select account_id as account, file_id as id, blob_key from file
        where (removed_at is not null or expires_at <= now())
          and not exists (select from batch where input_file_id = file_id
            and status in ('validating', 'in_progress', 'finalizing', 'cancelling'))
        limit ${limit}`.execute(db);
      return rows;
    },

    async forget({ account, id }) {
      await db.deleteFrom("file").where("accountId", "=", account).where("fileId", "=", id).execute();
    },
  });
}
