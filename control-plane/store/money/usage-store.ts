import { sql } from "kysely";
import type { LabelStore, UsageStore } from "../../billing/store.ts";
import { asked } from "../core/outage.ts";
import type { Db } from "../core/schema.ts";
import { type LineRow, lineOf, monthLines } from "./usage-lines.ts";

/** Line of an invoice; without an invoice, and of one without lines, its columns are null. */
interface ClosedRow extends LineRow {
  readonly through: number | null;
  readonly createdAt: Date | null;
  readonly ofInvoice: string | null;
  readonly ofMonth: number | null;
  readonly lineId: unknown;
}

export function createUsageStore(db: Db): UsageStore & LabelStore {
  return asked<UsageStore & LabelStore>({
    monthLines: (account, first, last) => monthLines(db, account, first, last),

    async closedMonths(account, first, last) {
      // One statement: of two, a read replica may run one and the primary, which knows of later invoices, the other.
      const { rows } = await sql<ClosedRow>`
        select (select max(month) from billing_month) as through,
          (select created_at from account where account_id = ${account}) as created_at,
          i.invoice_id as of_invoice, i.month as of_month, l.*
        from (select) once
        left join invoice i on i.account_id = ${account} and i.month between ${first} and ${last}
        left join invoice_line l on l.invoice_id = i.invoice_id
        order by i.month, l.line_id`.execute(db);
      const invoices = Map.groupBy(
        rows.filter(({ ofInvoice }) => ofInvoice !== null),
        ({ ofInvoice }) => ofInvoice as string,
      );
      return {
        accountCreatedAtMs: rows[0]?.createdAt?.getTime() ?? 0,
        through: rows[0]?.through ?? undefined,
        invoices: [...invoices].map(([invoiceId, lines]) => ({
          invoiceId,
          month: lines[0]?.ofMonth ?? first,
          lines: lines.filter(({ lineId }) => lineId !== null).map(lineOf),
        })),
      };
    },

    keysOf: (account) =>
      db
        .selectFrom("apiKey")
        .select(["tokenId as key", "name", sql<boolean>`revoked_at is null`.as("isLive")])
        .where("accountId", "=", account)
        .orderBy("createdAt")
        .execute(),

    async rent(account, fromMs, toMs) {
      // Partitions go by admission, which for a metered minute is its beginning.
      const { rows } = await sql<{ deployId: string; ms: bigint }>`
        select deploy_id, sum(total_ms)::bigint as ms from usage
        where account_id = ${account} and gpu_ms > 0 and not voided
          and admitted_at >= ${new Date(fromMs).toISOString()}::timestamptz
          and admitted_at < ${new Date(toMs).toISOString()}::timestamptz
        group by 1`.execute(db);
      return new Map(rows.map((row) => [row.deployId, Number(row.ms) / 1000]));
    },

    async saveLabels(labels) {
      await db
        .insertInto("requestLabel")
        .values(
          labels.map((one) => ({
            requestId: one.requestId,
            label: one.label ?? null,
            accountId: one.account,
            cacheKey: kept(one.cacheKey),
            source: kept(one.source),
          })),
        )
        .onConflict((conflict) => conflict.doNothing())
        .execute();
    },
  });
}

/** PostgreSQL stores no NUL in texts; a label has a maximum length. */
const kept = (mark: string | undefined) => mark?.replaceAll("\0", "").slice(0, 512) ?? null;
