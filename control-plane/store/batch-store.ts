import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import type { Batch, BatchId, BatchRun, BatchStore, LineResult, OutputFile } from "../batches/store.ts";
import { asked } from "./asked.ts";
import { announce } from "./change-feed.ts";
import { inTransaction } from "./database.ts";
import type { Database } from "./schema.ts";

const open = ["validating", "in_progress", "finalizing", "cancelling"] as const;
const now = sql<Date>`now()`;
const after = (ms: number) => sql<Date>`now() + make_interval(secs => ${ms / 1000})`;

/** Without what is only said while there is no output. */
const lastingErrors = sql`jsonb_path_query_array(coalesce(errors, '[]'),
  '$[*] ? (!(@.code starts with "output_"))')`;

export function createBatchStore(db: Kysely<Database>): BatchStore {
  const own = (account: AccountId) => db.selectFrom("batch").selectAll().where("account_id", "=", account);
  /** Of this run alone, as long as the batch has not ended. */
  const held = ({ batch, run }: BatchRun, on: Kysely<Database> = db) =>
    on.updateTable("batch").where("batch_id", "=", batch.id).where("run", "=", run).where("status", "in", open);
  const wasDone = ({ numUpdatedRows }: { readonly numUpdatedRows: bigint }) => numUpdatedRows > 0n;

  return asked<BatchStore>({
    create(wish, mostOpen) {
      return inTransaction(db, async (trx) => {
        // Of two at once the second must count the first.
        await sql`select pg_advisory_xact_lock(hashtextextended(${`batches/${wish.account}`}, 0))`.execute(trx);
        const { count } = await trx
          .selectFrom("batch")
          .select((of) => of.fn.countAll<bigint>().as("count"))
          .where("account_id", "=", wish.account)
          .where("status", "in", open)
          .executeTakeFirstOrThrow();
        if (count >= BigInt(mostOpen)) return "too_many";
        const file = await trx
          .selectFrom("file")
          .select("file_id")
          .where("account_id", "=", wish.account)
          .where("file_id", "=", wish.inputFile)
          .where("purpose", "=", "batch")
          .where("is_ready", "=", true)
          .where("removed_at", "is", null)
          .where("expires_at", ">", now)
          .forShare()
          .executeTakeFirst();
        if (!file) return "no_file";
        const row = await trx
          .insertInto("batch")
          .values({
            batch_id: wish.id,
            account_id: wish.account,
            key_id: wish.key,
            endpoint: wish.endpoint,
            input_file_id: wish.inputFile,
            metadata: wish.metadata && JSON.stringify(wish.metadata),
            output_expires_after_ms: BigInt(wish.outputExpiresAfterMs),
            expires_at: after(wish.windowMs),
          })
          .returningAll()
          .executeTakeFirstOrThrow();
        await announce(trx, "batch", wish.id);
        return batchOf(row);
      });
    },

    async find(account, id) {
      const row = await own(account).where("batch_id", "=", id).executeTakeFirst();
      return row && batchOf(row);
    },

    async list(account, cursor, limit) {
      let rows = own(account)
        .orderBy("created_at", "desc")
        .orderBy("batch_id", "desc")
        .limit(limit + 1);
      if (cursor !== undefined) {
        if (!(await own(account).where("batch_id", "=", cursor).executeTakeFirst())) return undefined;
        rows = rows.where(
          sql<boolean>`(created_at, batch_id) < (select c.created_at, c.batch_id from batch c where c.batch_id = ${cursor})`,
        );
      }
      const found = await rows.execute();
      return { batches: found.slice(0, limit).map(batchOf), hasMore: found.length > limit };
    },

    cancel(account, id) {
      return inTransaction(db, async (trx) => {
        const row = await trx
          .selectFrom("batch")
          .selectAll()
          .where("account_id", "=", account)
          .where("batch_id", "=", id)
          .forUpdate()
          .executeTakeFirst();
        if (!row || (row.status !== "validating" && row.status !== "in_progress")) return row && batchOf(row);
        const cancelled = await trx
          .updateTable("batch")
          .set({ status: "cancelling", cancelling_at: now })
          .where("batch_id", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
        await announce(trx, "batch", id);
        return batchOf(cancelled);
      });
    },

    async due(limit) {
      const { rows } = await sql<{ batch_id: string; run: number; rank: bigint }>`
        select batch_id, run, rank from (
          select b.batch_id, b.run, b.created_at,
            row_number() over (partition by b.account_id order by b.created_at, b.batch_id)
              + (select count(*) from batch o where o.account_id = b.account_id and o.locked_until > now()
                and o.status in ('validating', 'in_progress', 'finalizing', 'cancelling')) as rank
          from batch b
          where b.status in ('validating', 'in_progress', 'finalizing', 'cancelling') and b.locked_until <= now()) as due
        order by rank, created_at limit ${limit}`.execute(db);
      return rows.map(({ batch_id, run, rank }) => ({ id: batch_id as BatchId, run, rank: Number(rank) }));
    },

    async claim(id, lockMs) {
      const row = await db
        .updateTable("batch")
        .set((of) => ({
          run: of("run", "+", 1),
          barren_runs: of("barren_runs", "+", 1),
          locked_until: after(lockMs),
        }))
        .where("batch_id", "=", id)
        .where("status", "in", open)
        .where("locked_until", "<=", now)
        .returningAll()
        .executeTakeFirst();
      return row && { batch: batchOf(row), run: row.run, barren: row.barren_runs };
    },

    async renew(run, lockMs) {
      const row = await held(run)
        .set({ locked_until: after(lockMs) })
        .returning("status")
        .executeTakeFirst();
      return row?.status;
    },

    async release(run) {
      const barren_runs = sql<number>`greatest(barren_runs - 1, 0)`;
      await held(run).set({ locked_until: now, barren_runs }).execute();
    },

    async pause(run, ms, problem) {
      const errors = sql<string>`${lastingErrors} || ${JSON.stringify([problem])}::jsonb`;
      await held(run)
        .set({ locked_until: after(ms), ...(problem ? { errors } : {}) })
        .execute();
    },

    async began(run, { total, model }) {
      const end = await held(run)
        .set({
          total,
          model,
          status: sql`case status when 'validating' then 'in_progress' else status end`,
          in_progress_at: now,
        })
        .executeTakeFirst();
      return wasDone(end);
    },

    async failed(run, errors) {
      const set = { status: "failed", failed_at: now, errors: JSON.stringify(errors) } as const;
      return wasDone(await held(run).set(set).executeTakeFirst());
    },

    addResults(run, results) {
      return inTransaction(db, async (trx) => {
        // First, so that of two runs at once the later one waits here and finds itself overtaken.
        if (!wasDone(await held(run, trx).set({ locked_until: sql`locked_until` }).executeTakeFirst())) return false;
        const added = await trx
          .insertInto("batch_result")
          .values(results.map(({ line, isError, body }) => ({ batch_id: run.batch.id, line, is_error: isError, body })))
          .onConflict((at) => at.columns(["batch_id", "line"]).doNothing())
          .returning("line")
          .execute();
        const fresh = new Set(added.map(({ line }) => line));
        const counted = results.filter(({ line }) => fresh.has(line));
        await held(run, trx)
          .set((of) => ({
            completed: of("completed", "+", counted.filter(({ isError }) => !isError).length),
            failed: of("failed", "+", counted.filter(({ isError }) => isError).length),
            input_tokens: of("input_tokens", "+", sumOf(counted, "input")),
            cached_tokens: of("cached_tokens", "+", sumOf(counted, "cachedInput")),
            output_tokens: of("output_tokens", "+", sumOf(counted, "output")),
            reasoning_tokens: of("reasoning_tokens", "+", sumOf(counted, "reasoning")),
            ...(counted.length > 0 ? { barren_runs: 0 } : {}),
          }))
          .execute();
        return true;
      });
    },

    async expired(run) {
      return wasDone(await held(run).set({ expired_at: now }).executeTakeFirst());
    },

    async finalizing(run, problem) {
      const end = await held(run)
        .set({
          ...(problem ? { errors: JSON.stringify([problem]) } : {}),
          status: sql`case status when 'cancelling' then status else 'finalizing' end`,
          finalizing_at: sql<Date | null>`case status when 'cancelling' then null else coalesce(finalizing_at, now()) end`,
        })
        .executeTakeFirst();
      return wasDone(end);
    },

    end(run, { output, errors }) {
      const { batch } = run;
      return inTransaction(db, async (trx) => {
        const ended = await held(run, trx)
          .set({
            status: sql`case when status = 'cancelling' then 'cancelled' when expired_at is not null then 'expired'
              else 'completed' end`,
            completed_at: sql<Date | null>`case when status = 'cancelling' or expired_at is not null then null else now() end`,
            cancelled_at: sql<Date | null>`case when status = 'cancelling' then now() end`,
            errors: sql<string | null>`nullif(${lastingErrors}, '[]')`,
            output_file_id: output?.id ?? null,
            error_file_id: errors?.id ?? null,
          })
          .executeTakeFirst();
        if (!wasDone(ended)) return false;
        for (const file of [output, errors]) if (file) await makeFile(trx, batch, file);
        await trx.deleteFrom("batch_result").where("batch_id", "=", batch.id).execute();
        await announce(trx, "batch", batch.id);
        return true;
      });
    },

    async done(id) {
      // A text's length stands beside it: none of them is read for that.
      const rows = await db
        .selectFrom("batch_result")
        .select(["line", sql<number>`octet_length(body)`.as("bytes")])
        .where("batch_id", "=", id)
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
  });
}

async function makeFile(trx: Transaction<Database>, batch: Batch, { id, filename, bytes }: OutputFile): Promise<void> {
  await trx
    .updateTable("file")
    .set({
      purpose: "batch_output",
      filename,
      bytes: BigInt(bytes),
      is_ready: true,
      created_at: now,
      expires_at: after(batch.outputExpiresAfterMs),
    })
    .where("account_id", "=", batch.account)
    .where("file_id", "=", id)
    .execute();
}

const sumOf = (results: readonly LineResult[], kind: "input" | "cachedInput" | "output" | "reasoning"): bigint =>
  BigInt(results.reduce((sum, { tokens }) => sum + (tokens?.[kind] ?? 0), 0));

type Row = Selectable<Database["batch"]>;

const ms = (time: Date | null): number | null => time?.getTime() ?? null;

function batchOf(row: Row): Batch {
  return {
    id: row.batch_id as BatchId,
    account: row.account_id as AccountId,
    key: row.key_id as KeyId,
    endpoint: row.endpoint as Batch["endpoint"],
    inputFile: row.input_file_id,
    metadata: row.metadata,
    outputExpiresAfterMs: Number(row.output_expires_after_ms),
    status: row.status,
    model: row.model,
    errors: row.errors,
    counts: { total: row.total, completed: row.completed, failed: row.failed },
    tokens: {
      input: Number(row.input_tokens),
      cachedInput: Number(row.cached_tokens),
      output: Number(row.output_tokens),
      reasoning: Number(row.reasoning_tokens),
    },
    outputFile: row.output_file_id,
    errorFile: row.error_file_id,
    times: {
      created: row.created_at.getTime(),
      expires: row.expires_at.getTime(),
      inProgress: ms(row.in_progress_at),
      finalizing: ms(row.finalizing_at),
      completed: ms(row.completed_at),
      failed: ms(row.failed_at),
      expired: ms(row.expired_at),
      cancelling: ms(row.cancelling_at),
      cancelled: ms(row.cancelled_at),
    },
  };
}
