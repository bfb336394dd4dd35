import { type Selectable, sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import type { Batch, BatchRun, BatchStore, DueBatch, LineResult, OutputFile } from "../../batches/store.ts";
import type { FileId } from "../../files/store.ts";
import { announce } from "../core/change-feed.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { rowCount } from "../core/rows.ts";
import type { Database, Db, Trx } from "../core/schema.ts";
import { interval } from "../core/time.ts";

const open = ["validating", "in_progress", "finalizing", "cancelling"] as const;
const now = sql<Date>`now()`;
const after = (ms: number) => sql<Date>`now() + ${interval(ms)}`;

const wasDone = ({ numUpdatedRows }: { readonly numUpdatedRows: bigint }) => numUpdatedRows > 0n;

/** Limits a write to this run, and to a batch that has not ended. */
const held = (db: Db, { batch, run }: BatchRun) =>
  db.updateTable("batch").where("batchId", "=", batch.id).where("run", "=", run).where("status", "in", open);

/** The errors without those that apply only until the output is written. */
const lastingErrors = sql`jsonb_path_query_array(coalesce(errors, '[]'),
  '$[*] ? (!(@.code starts with "output_"))')`;

export function createBatchStore(db: Db): BatchStore {
  return asked<BatchStore>({
    ...accountMethods(db),
    ...runMethods(db),
    ...resultMethods(db),
  });
}

/** Requests of accounts. */
function accountMethods(db: Db) {
  const own = (account: AccountId) => db.selectFrom("batch").selectAll().where("accountId", "=", account);
  return {
    create(request, maxOpen) {
      return inTransaction(db, async (trx) => {
        // Serialised per account, so that concurrent requests count each other.
        await sql`select pg_advisory_xact_lock(hashtextextended(${`batches/${request.account}`}, 0))`.execute(trx);
        const { count } = await trx
          .selectFrom("batch")
          .select(rowCount)
          .where("accountId", "=", request.account)
          .where("status", "in", open)
          .executeTakeFirstOrThrow();
        if (count >= maxOpen) return "too_many";
        const file = await trx
          .selectFrom("file")
          .select("fileId")
          .where("accountId", "=", request.account)
          .where("fileId", "=", request.inputFile as FileId)
          .where("purpose", "=", "batch")
          .where("isReady", "=", true)
          .where("removedAt", "is", null)
          .where("expiresAt", ">", now)
          .forShare()
          .executeTakeFirst();
        if (!file) return "no_file";
        const row = await trx
          .insertInto("batch")
          .values({
            batchId: request.id,
            accountId: request.account,
            keyId: request.key,
            endpoint: request.endpoint,
            inputFileId: request.inputFile,
            metadata: request.metadata && JSON.stringify(request.metadata),
            outputExpiresAfterMs: BigInt(request.outputExpiresAfterMs),
            expiresAt: after(request.windowMs),
            ...(request.total === undefined ? {} : { total: request.total }),
          })
          .returningAll()
          .executeTakeFirstOrThrow();
        await announce(trx, "batch", request.id);
        return batchOf(row);
      });
    },

    async find(account, id) {
      const row = await own(account).where("batchId", "=", id).executeTakeFirst();
      return row && batchOf(row);
    },

    async list(account, { cursor, limit, endpoint }) {
      const isBack = cursor?.side === "before";
      const order = isBack ? "asc" : "desc";
      let rows = own(account)
        .orderBy("createdAt", order)
        .orderBy("batchId", order)
        .limit(limit + 1);
      if (endpoint !== undefined) rows = rows.where("endpoint", "=", endpoint);
      if (cursor !== undefined) {
        if (!(await own(account).where("batchId", "=", cursor.id).executeTakeFirst())) return undefined;
        const place = sql`(select c.created_at, c.batch_id from batch c where c.batch_id = ${cursor.id})`;
        rows = rows.where(
          isBack ? sql<boolean>`(created_at, batch_id) > ${place}` : sql<boolean>`(created_at, batch_id) < ${place}`,
        );
      }
      const found = await rows.execute();
      const page = found.slice(0, limit).map(batchOf);
      return { batches: isBack ? page.reverse() : page, hasMore: found.length > limit };
    },

    cancel(account, id) {
      return inTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom("batch")
          .selectAll()
          .where("accountId", "=", account)
          .where("batchId", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!row || (row.status !== "validating" && row.status !== "in_progress")) return row && batchOf(row);
        const cancelled = await trx
          .updateTable("batch")
          .set({ status: "cancelling", cancellingAt: now })
          .where("batchId", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
        await announce(trx, "batch", id);
        return batchOf(cancelled);
      });
    },

    async remove(account, id) {
      const removed = await db
        .deleteFrom("batch")
        .where("accountId", "=", account)
        .where("batchId", "=", id)
        .where("status", "not in", open)
        .executeTakeFirst();
      return removed.numDeletedRows > 0n;
    },
  } satisfies Partial<BatchStore>;
}

/** Runs of batches: who processes one, and how far it is. */
const runMethods = (db: Db) =>
  ({
    async due(limit) {
      const { rows } = await sql<DueBatch>`
        select batch_id as id, run, rank::float8 from (
          select b.batch_id, b.run, b.created_at,
            row_number() over (partition by b.account_id order by b.created_at, b.batch_id)
              + (select count(*) from batch o where o.account_id = b.account_id and o.locked_until > now()
                and o.status in ('validating', 'in_progress', 'finalizing', 'cancelling')) as rank
          from batch b
          where b.status in ('validating', 'in_progress', 'finalizing', 'cancelling') and b.locked_until <= now()) as due
        order by rank, created_at limit ${limit}`.execute(db);
      return rows;
    },

    async claim(id, lockMs) {
      const row = await db
        .updateTable("batch")
        .set((of) => ({
          run: of("run", "+", 1),
          barrenRuns: of("barrenRuns", "+", 1),
          lockedUntil: after(lockMs),
        }))
        .where("batchId", "=", id)
        .where("status", "in", open)
        .where("lockedUntil", "<=", now)
        .returningAll()
        .executeTakeFirst();
      return row && { batch: batchOf(row), run: row.run, barren: row.barrenRuns };
    },

    async renew(run, lockMs) {
      const row = await held(db, run)
        .set({ lockedUntil: after(lockMs) })
        .returning("status")
        .executeTakeFirst();
      return row?.status;
    },

    async release(run) {
      const barrenRuns = sql<number>`greatest(barren_runs - 1, 0)`;
      await held(db, run).set({ lockedUntil: now, barrenRuns }).execute();
    },

    async pause(run, ms, problem) {
      const errors = sql<string>`${lastingErrors} || ${JSON.stringify([problem])}::jsonb`;
      await held(db, run)
        .set({ lockedUntil: after(ms), ...(problem ? { errors } : {}) })
        .execute();
    },

    async began(run, { total, model }) {
      const end = await held(db, run)
        .set({
          total,
          model,
          status: sql`case status when 'validating' then 'in_progress' else status end`,
          inProgressAt: now,
        })
        .executeTakeFirst();
      return wasDone(end);
    },

    async failed(run, errors) {
      const set = { status: "failed", failedAt: now, errors: JSON.stringify(errors) } as const;
      return wasDone(await held(db, run).set(set).executeTakeFirst());
    },

    async expired(run) {
      return wasDone(await held(db, run).set({ expiredAt: now }).executeTakeFirst());
    },

    async finalizing(run, problem) {
      const end = await held(db, run)
        .set({
          ...(problem ? { errors: JSON.stringify([problem]) } : {}),
          status: sql`case status when 'cancelling' then status else 'finalizing' end`,
          finalizingAt: sql<Date | null>`case status when 'cancelling' then null else coalesce(finalizing_at, now()) end`,
        })
        .executeTakeFirst();
      return wasDone(end);
    },

    end(run, { output, errors }) {
      const { batch } = run;
      return inTransaction(db, async (trx) => {
        const ended = await held(trx, run)
          .set({
            status: sql`case when status = 'cancelling' then 'cancelled' when expired_at is not null then 'expired'
              else 'completed' end`,
            completedAt: sql<Date | null>`case when status = 'cancelling' or expired_at is not null then null else now() end`,
            cancelledAt: sql<Date | null>`case when status = 'cancelling' then now() end`,
            errors: sql<string | null>`nullif(${lastingErrors}, '[]')`,
            outputFileId: output?.id ?? null,
            errorFileId: errors?.id ?? null,
          })
          .executeTakeFirst();
        if (!wasDone(ended)) return false;
        for (const file of [output, errors]) if (file) await makeFile(trx, batch, file);
        await trx.deleteFrom("batchResult").where("batchId", "=", batch.id).execute();
        await announce(trx, "batch", batch.id);
        return true;
      });
    },
  }) satisfies Partial<BatchStore>;

/** Results of the lines of a batch, until its files are written. */
const resultMethods = (db: Db) =>
  ({
    addResults(run, results) {
      return inTransaction(db, async (trx) => {
        // First, so that the later of two concurrent runs waits here and finds that it was overtaken.
        if (!wasDone(await held(trx, run).set({ lockedUntil: sql`locked_until` }).executeTakeFirst())) return false;
        const added = await trx
          .insertInto("batchResult")
          .values(results.map(({ line, isError, body }) => ({ batchId: run.batch.id, line, isError, body })))
          .onConflict((at) => at.columns(["batchId", "line"]).doNothing())
          .returning("line")
          .execute();
        const fresh = new Set(added.map(({ line }) => line));
        const counted = results.filter(({ line }) => fresh.has(line));
        await held(trx, run)
          .set((of) => ({
            completed: of("completed", "+", counted.filter(({ isError }) => !isError).length),
            failed: of("failed", "+", counted.filter(({ isError }) => isError).length),
            inputTokens: of("inputTokens", "+", sumOf(counted, "input")),
            cachedTokens: of("cachedTokens", "+", sumOf(counted, "cachedInput")),
            outputTokens: of("outputTokens", "+", sumOf(counted, "output")),
            reasoningTokens: of("reasoningTokens", "+", sumOf(counted, "reasoning")),
            ...(counted.length > 0 ? { barrenRuns: 0 } : {}),
          }))
          .execute();
        return true;
      });
    },

    async done(id) {
      // PostgreSQL stores the length of a text, so the bodies are not read.
      const rows = await db
        .selectFrom("batchResult")
        .select(["line", sql<number>`octet_length(body)`.as("bytes")])
        .where("batchId", "=", id)
        .execute();
      return { lines: new Set(rows.map(({ line }) => line)), bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0) };
    },

    async results(id, isError, afterLine, { lines, bytes }) {
      const { rows } = await sql<{ line: number; body: string }>`
        select line, body from (
          select line, body, sum(octet_length(body)) over (order by line) - octet_length(body) as before from (
            select line, body from batch_result
            where batch_id = ${id} and is_error = ${isError} and line > ${afterLine}
            order by line limit ${lines}) as page) as page
        where before < ${bytes} order by line`.execute(db);
      return rows.map(({ line, body }) => ({ line, body, isError, tokens: undefined }));
    },
  }) satisfies Partial<BatchStore>;

async function makeFile(trx: Trx, batch: Batch, { id, filename, bytes }: OutputFile): Promise<void> {
  await trx
    .updateTable("file")
    .set({
      purpose: "batch_output",
      filename,
      bytes: BigInt(bytes),
      isReady: true,
      createdAt: now,
      expiresAt: after(batch.outputExpiresAfterMs),
    })
    .where("accountId", "=", batch.account)
    .where("fileId", "=", id as FileId)
    .execute();
}

const sumOf = (results: readonly LineResult[], kind: "input" | "cachedInput" | "output" | "reasoning"): bigint =>
  BigInt(results.reduce((sum, { tokens }) => sum + (tokens?.[kind] ?? 0), 0));

function batchOf(row: Selectable<Database["batch"]>): Batch {
  const ms = (time: Date | null) => time?.getTime() ?? null;
  return {
    id: row.batchId,
    account: row.accountId,
    key: row.keyId,
    endpoint: row.endpoint,
    inputFile: row.inputFileId,
    metadata: row.metadata,
    outputExpiresAfterMs: Number(row.outputExpiresAfterMs),
    status: row.status,
    model: row.model,
    errors: row.errors,
    counts: { total: row.total, completed: row.completed, failed: row.failed },
    tokens: {
      input: Number(row.inputTokens),
      cachedInput: Number(row.cachedTokens),
      output: Number(row.outputTokens),
      reasoning: Number(row.reasoningTokens),
    },
    outputFile: row.outputFileId,
    errorFile: row.errorFileId,
    times: {
      created: row.createdAt.getTime(),
      expires: row.expiresAt.getTime(),
      inProgress: ms(row.inProgressAt),
      finalizing: ms(row.finalizingAt),
      completed: ms(row.completedAt),
      failed: ms(row.failedAt),
      expired: ms(row.expiredAt),
      cancelling: ms(row.cancellingAt),
      cancelled: ms(row.cancelledAt),
    },
  };
}
