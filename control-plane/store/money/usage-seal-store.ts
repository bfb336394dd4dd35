import { type RawBuilder, sql } from "kysely";
import type { AccountId } from "../../../proto/ids.ts";
import {
  correctionFields,
  firstHash,
  maxSegmentItems,
  recordFields,
  type SealedField,
} from "../../../proto/invoice-file.ts";
import type {
  AccountPage,
  Corrected,
  InvoiceKeyStore,
  NewSegment,
  SegmentItems,
  StoredInvoiceKey,
  UsageSealStore,
} from "../../billing/store.ts";
import { auditAct } from "../accounts/audit-rows.ts";
import { inTransaction } from "../core/database.ts";
import { asked } from "../core/outage.ts";
import { affectsRow } from "../core/rows.ts";
import type { Db, Trx } from "../core/schema.ts";
import { invoiceLines } from "./usage-lines.ts";

/**
 * Rows become visible after the time they carry: until their transaction ends. A statement of a settlement lasts 5 s at most, and
 * what runs longer is seen.
 */
const usualSettledAfterMs = 60_000;
/**
 * Sealing does not wait longer for a transaction that writes. Rows that it settles would never be sealed, and the month would get no statement;
 * settlements end after seconds.
 */
const unwatchedMs = 3_600_000;
/** Corrections in a page of those that an export reads. */
const usualCorrectionPage = 20_000;

export function createInvoiceKeyStore(db: Db): InvoiceKeyStore {
  return asked<InvoiceKeyStore>({
    async newestKey() {
      const row = await db.selectFrom("invoiceKey").selectAll().orderBy("version", "desc").limit(1).executeTakeFirst();
      return row && { ...publicKeyOf(row), sealed: row.sealedKey };
    },

    async publicKeys() {
      const rows = await db
        .selectFrom("invoiceKey")
        .select(["version", "publicKey", "signature", "createdAt"])
        .orderBy("version")
        .execute();
      return rows.map(publicKeyOf);
    },

    addKey: ({ version, publicKey, createdUs, signature, sealed }: StoredInvoiceKey, by) =>
      inTransaction(db, async (trx) => {
        const isAdded = await trx
          .insertInto("invoiceKey")
          .values({
            version,
            publicKey: Buffer.from(publicKey, "base64"),
            sealedKey: sealed,
            signature: signature === "" ? null : Buffer.from(signature, "base64"),
            createdAt: new Date(createdUs / 1_000),
          })
          .onConflict((on) => on.column("version").doNothing())
          .$call(affectsRow);
        if (isAdded && by)
          await auditAct(trx, by, {
            action: "invoice_key.rotate",
            subject: `invoice-key/${version}`,
            account: null,
            after: { public_key: publicKey },
          });
        return isAdded;
      }),
  });
}

function publicKeyOf(row: { version: number; publicKey: Buffer; signature: Buffer | null; createdAt: Date }) {
  return {
    version: row.version,
    publicKey: row.publicKey.toString("base64"),
    createdUs: row.createdAt.getTime() * 1_000,
    signature: row.signature?.toString("base64") ?? "",
  };
}

export function createUsageSealStore(
  db: Db,
  { settledAfterMs = usualSettledAfterMs, correctionPage = usualCorrectionPage } = {},
): UsageSealStore {
  return asked<UsageSealStore>({
    async due(month, items, oldAfterMs, after, limit) {
      // The sums that settlements keep do not count voided attempts, which segments do: accounts with some are found by the age of their records.
      const { rows } = await sql<PageRow>`
        ${accountPage(after, limit)}
        select account_id, coalesce(d.records - s.records >= ${items} or d.records > 0 and exists (
            select from usage where usage.account_id = page.account_id
              and settled_at > s.through_at and settled_at < now() - make_interval(secs => ${oldAfterMs / 1_000})), false) as is_wanted
        from page cross join lateral (
          select sum(records) as records from usage_day where usage_day.account_id = page.account_id and month = ${month}
        ) d cross join lateral (
          select coalesce(sum(records), 0) as records, coalesce(max(through_at), ${startOf(month)}) as through_at from usage_segment
          where usage_segment.account_id = page.account_id and month = ${month}
        ) s order by account_id`.execute(db);
      return pageOf(rows);
    },

    async withoutStatement(month, after, limit) {
      const { rows } = await sql<PageRow>`
        ${accountPage(after, limit)}
        select account_id, exists (select from usage_day d where d.account_id = page.account_id and month = ${month})
          and not exists (select from invoice_statement s where s.account_id = page.account_id and month = ${month}) as is_wanted
        from page order by account_id`.execute(db);
      return pageOf(rows);
    },

    append: (account, month, items, seal) =>
      inTransaction(db, async (trx) => {
        if (!(await isOnlySealer(trx, account, month))) return "busy";
        const head = await headOf(trx, account, month, settledAfterMs);
        if (head.isEmpty) return "done";
        const { through, isLast, ...facts } = await addDigests(trx, account, month, head, items);
        if (facts.records + facts.corrections > maxSegmentItems)
          throw new Error(`${facts.records} records and ${facts.corrections} corrections are too many for a segment`);
        if (facts.records + facts.corrections > 0) {
          const segment = head.segment + 1;
          const { hash, keyVersion, signature } = seal({ ...facts, segment, previous: head.hash });
          await sql`
            insert into usage_segment (account_id, month, segment, records, corrections, charged, through_at, hash, key_version, signature)
            values (${account}, ${month}, ${segment}, ${facts.records}, ${facts.corrections}, ${String(facts.charged)}, ${through},
              ${Buffer.from(hash, "hex")}, ${keyVersion}, ${Buffer.from(signature, "base64")})`.execute(trx);
        }
        return isLast ? "done" : "more";
      }),

    async chain(account, month) {
      // One statement, so that sums and head are of the same segments.
      const { rows } = await sql<Awaited<ReturnType<UsageSealStore["chain"]>>>`
        select count(*)::int as segments, coalesce(sum(records), 0)::int as records, coalesce(sum(corrections), 0)::int as corrections,
          coalesce(sum(charged), 0)::bigint as charged,
          coalesce((array_agg(encode(hash, 'hex') order by segment desc))[1], ${firstHash}) as head,
          coalesce(${us("max(through_at)")}, 0)::float8 as through_us
        from usage_segment where account_id = ${account} and month = ${month}`.execute(db);
      if (!rows[0]) throw new Error("no chain");
      return rows[0];
    },

    async isFresh(account, month, items, ageMs) {
      const { rows } = await sql<{ is: boolean }>`
        select records < ${items} and sealed_at > now() - make_interval(secs => ${ageMs / 1_000}) as is from usage_segment
        where account_id = ${account} and month = ${month} order by segment desc limit 1`.execute(db);
      return rows[0]?.is ?? false;
    },

    async isLost(account, month) {
      // Segments have the records of voided attempts too, so a month with fewer than its sum is not whole.
      const { rows } = await sql<{ is: boolean }>`
        select exists (select from usage_retention where expired_before > ${startOf(month)} + interval '1 microsecond') and
          (select coalesce(sum(records), 0) from usage_day where account_id = ${account} and month = ${month}) >
          (select coalesce(sum(records), 0) from usage_segment where account_id = ${account} and month = ${month}) as is`.execute(
        db,
      );
      return rows[0]?.is ?? false;
    },

    async closed(account, month) {
      const { rows } = await sql<{ invoiceId: string | null; total: bigint | null }>`
        select invoice_id, total from billing_month m
        left join invoice i on i.account_id = ${account} and i.month = m.month where m.month = ${month}`.execute(db);
      const [row] = rows;
      if (!row) return undefined;
      const invoice = row.invoiceId;
      const lines = invoice === null ? [] : ((await invoiceLines(db, [invoice])).get(invoice) ?? []);
      return {
        invoice,
        total: row.total ?? 0n,
        lines: lines.map(({ discount, ...line }) => ({ ...line, discountId: discount?.id ?? null })),
      };
    },

    async statement(account, month) {
      const row = await db
        .selectFrom("invoiceStatement")
        .select(["text", "keyVersion", "signature"])
        .where("accountId", "=", account)
        .where("month", "=", month)
        .executeTakeFirst();
      return row && { ...row, signature: row.signature.toString("base64") };
    },

    async addStatement(account, month, invoiceId, { text, keyVersion, signature }) {
      await db
        .insertInto("invoiceStatement")
        .values({ accountId: account, month, invoiceId, text, keyVersion, signature: Buffer.from(signature, "base64") })
        .onConflict((on) => on.columns(["accountId", "month"]).doNothing())
        .execute();
    },

    async rates(account, month) {
      const raw = db.withoutPlugins();
      const prices = await sql<Record<string, string | number>>`
        select price_version::text, kind, subject, input_rate::text as input, cached_input_rate::text as cached_input,
          output_rate::text as output, character_rate::text as characters, audio_rate::text as audio, image_rate::text as images,
          image_steps::text, hour_rate::text as hour, priority_percent, flex_percent,
          ${us("effective_from")}::float8 as effective_from_us,
          (select ${us("min(n.effective_from)")} from price n where n.kind = p.kind and n.subject = p.subject
            and n.effective_from > p.effective_from)::float8 as effective_until_us
        from price p where price_version in (
          select price_version from usage_day where account_id = ${account} and month = ${month})
        order by p.price_version`.execute(raw);
      const adapters = await sql<Record<string, string>>`
        select model, subject from (
          select distinct d.model, p.subject from usage_day d join price p using (price_version)
          where d.account_id = ${account} and d.month = ${month} and p.kind = 'model' and d.model <> p.subject) named
        order by model collate "C", subject collate "C"`.execute(raw);
      const discounts = await sql<Record<string, string | number>>`
        select discount_id, name, text, basis_points from discount where discount_id in (
          select discount_id from usage_day where account_id = ${account} and month = ${month})
        order by discount_id collate "C"`.execute(raw);
      return { prices: prices.rows.map(withoutNulls), adapters: adapters.rows, discounts: discounts.rows };
    },

    async segment(account, month, segment) {
      const row = await db
        .selectFrom("usageSegment as s")
        .innerJoin("usageDigests as d", (join) =>
          join
            .onRef("d.accountId", "=", "s.accountId")
            .onRef("d.month", "=", "s.month")
            .onRef("d.segment", "=", "s.segment"),
        )
        .select(["s.segment", "records", "corrections", "charged", "digests", "hash", "keyVersion", "signature"])
        .select(sql<number>`${us("through_at")}::float8`.as("throughUs"))
        .where("s.accountId", "=", account)
        .where("s.month", "=", month)
        .where("s.segment", "=", segment)
        .executeTakeFirst();
      return row && { ...row, hash: row.hash.toString("hex"), signature: row.signature.toString("base64") };
    },

    async corrected(account, month) {
      const { rows: ends } = await sql<{ through: string }>`
        select (${visibleUntil(settledAfterMs)} - interval '1 microsecond')::text as through`.execute(db);
      const through = ends[0]?.through;
      if (!through) throw new Error("no time");
      const amounts = new Map<string, bigint>();
      let after: { readonly at: RawBuilder<unknown>; readonly entry: string } = { at: startOf(month), entry: "0" };
      for (;;) {
        const { rows } = await sql<{ requestId: string; attempt: number; amount: bigint; at: string; entry: string }>`
          select request_id, attempt, amount, posted_at::text as at, entry_id::text as entry from ledger_entry
          where account_id = ${account} and ${isCorrection} and posted_at >= ${after.at} and posted_at <= ${through}::timestamptz
            and (posted_at, entry_id) > (${after.at}, ${after.entry}::bigint)
          order by posted_at, entry_id limit ${correctionPage}`.execute(db);
        for (const { requestId, attempt, amount } of rows) {
          const name = attemptName(requestId, attempt);
          amounts.set(name, (amounts.get(name) ?? 0n) + amount);
        }
        const last = rows.at(-1);
        if (!last || rows.length < correctionPage) return { through, amounts };
        after = { at: sql`${last.at}::timestamptz`, entry: last.entry };
      }
    },

    async items(account, month, segment, corrected) {
      const { rows } = await sql<{ from: string; through: string; hasExpired: boolean }>`
        select exists (select from usage_retention where from_at < expired_before + ${lateBy}) as has_expired,
          from_at::text as from, through_at::text as through
        from (
          select through_at, coalesce((select p.through_at from usage_segment p where p.account_id = s.account_id and p.month = s.month
            and p.segment = s.segment - 1), ${startOf(month)}) as from_at
          from usage_segment s where account_id = ${account} and month = ${month} and segment = ${segment}) span`.execute(
        db,
      );
      const [span] = rows;
      if (!span) throw new Error(`no segment ${segment}`);
      const records = await sql<FoundRecord>`
        with ${withLater(account, corrected.through)}
        select ${recordText} as text, later_amount is not null as is_corrected, request_id, attempt
        ${fromRecords({ account, ...span })}`.execute(db);
      const corrections = await sql<{ text: string }>`
        select ${correctionText} as text ${fromCorrections({ account, ...span })} order by posted_at, entry_id`.execute(
        db,
      );
      return {
        hasExpired: span.hasExpired,
        records: records.rows.map((record) => beforeCorrections(record, corrected.amounts)),
        corrections: corrections.rows.map(({ text }) => text),
      };
    },
  });
}

/** Accounts are read in pages by their id: an index of all sums by month would be built while settlements wait. */
const accountPage = (after: string, limit: number) => sql`
  with page as (select account_id from account where account_id > ${after} order by account_id limit ${limit})`;

interface PageRow {
  readonly accountId: AccountId;
  readonly isWanted: boolean;
}

const pageOf = (rows: readonly PageRow[]): AccountPage => ({
  accounts: rows.filter(({ isWanted }) => isWanted).map(({ accountId }) => accountId),
  last: rows.at(-1)?.accountId,
});

const withoutNulls = <Row extends object>(row: Row): Row =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)) as Row;

interface FoundRecord {
  readonly text: string;
  readonly isCorrected: boolean;
  readonly requestId: string;
  readonly attempt: number;
}

const attemptName = (requestId: string, attempt: number): string => `${attempt} ${requestId}`;

/** The record as it was captured. The charge is the last value of its text. */
function beforeCorrections(
  { text, isCorrected, requestId, attempt }: FoundRecord,
  amounts: Corrected["amounts"],
): SegmentItems["records"][number] {
  const amount = amounts.get(attemptName(requestId, attempt));
  if (amount === undefined) return { text, isCorrected };
  const at = text.lastIndexOf(",") + 1;
  return { text: `${text.slice(0, at)}${BigInt(text.slice(at, -1)) - amount})`, isCorrected: true };
}

/** Until the transaction ends. */
async function isOnlySealer(trx: Trx, account: AccountId, month: number): Promise<boolean> {
  const { rows } = await sql<{ isFree: boolean }>`
    select pg_try_advisory_xact_lock(hashtextextended(${`usage seal ${account} ${month}`}, 0)) as is_free`.execute(trx);
  return rows[0]?.isFree === true;
}

/** Retention removes records by their admission. Some of a month were settled later, at most by about this time. */
const lateBy = sql.raw("interval '40 days'");

/** Microseconds since 1970 of a time: whole, as a double of seconds holds them. */
const us = (column: string): RawBuilder<number> => sql.raw(micros(column));

/** The last microsecond before a month. */
const startOf = (month: number) =>
  sql`make_timestamptz(${Math.floor(month / 12)}::int, ${(month % 12) + 1}::int, 1, 0, 0, 0, 'UTC') - interval '1 microsecond'`;

/** Rows before this time are all visible: what is settled later, or by a transaction that is not finished, is not before it. */
const visibleUntil = (settledAfterMs: number) => sql`least(
  now() - make_interval(secs => ${settledAfterMs / 1_000}),
  -- As pg_stat_activity, without its joins.
  (select min(xact_start) from pg_stat_get_activity(null) where datid = (
      select oid from pg_database where datname = current_database())
    and backend_type = 'client backend' and backend_xid is not null and pid <> pg_backend_pid()
    and xact_start > now() - make_interval(secs => ${unwatchedMs / 1_000})))`;

interface Head {
  readonly segment: number;
  readonly hash: string;
  /** Times are texts, because a Date has no microseconds. */
  readonly through: string;
  /** Rows before it are all visible. */
  readonly until: string;
  /** The last microsecond before `until`. */
  readonly last: string;
  readonly isEmpty: boolean;
}

/** A statement of its own, so that the next one sees what ended before it. */
async function headOf(trx: Trx, account: AccountId, month: number, settledAfterMs: number): Promise<Head> {
  const { rows } = await sql<Omit<Head, "hash"> & { hash: string | null }>`
    with head as (
      select segment, hash, through_at from usage_segment
      where account_id = ${account} and month = ${month} order by segment desc limit 1
    ), span as (
      select coalesce((select through_at from head), ${startOf(month)}) as from_at, least(
        ${visibleUntil(settledAfterMs)}, ${startOf(month + 1)} + interval '1 microsecond') as until_at
    )
    select coalesce((select segment from head), 0) as segment, (select encode(hash, 'hex') from head) as hash,
      from_at::text as through, until_at::text as until, (until_at - interval '1 microsecond')::text as last,
      until_at <= from_at + interval '1 microsecond' as is_empty
    from span`.execute(trx);
  const [head] = rows;
  if (!head) throw new Error("no head");
  return { ...head, hash: head.hash ?? firstHash };
}

interface Span {
  readonly account: AccountId;
  /** Exclusive. */
  readonly from: string;
  readonly through: string | RawBuilder<unknown>;
}

/** As PostgreSQL writes a row: in a third of the time that joining its values takes. A null costs less than a 0. */
const textOf = (fields: readonly SealedField[], columnOf: (column: string) => string) =>
  sql.raw<string>(
    `row(${fields
      .map(({ column, type }) => {
        const value = columnOf(column);
        return type === "time" ? micros(value) : type === "count" ? `nullif(${value}, 0)` : value;
      })
      .join()})::text`,
  );
const micros = (column: string): string => `(date_part('epoch', ${column}) * 1000000)::bigint`;

const recordText = textOf(recordFields, (column) =>
  column === "charge" ? "u.charge - coalesce(u.later_amount, 0)" : `u.${column}`,
);

const correctionText = textOf(correctionFields, (column) =>
  column === "price_version" ? "coalesce(c.price_version, 0)" : `c.${column}`,
);

const isCorrection = sql`kind = 'correction' and book = 'customer_spent'`;

/** With their names only, a row is copied in a third less time. */
const sealedColumns = sql.raw(recordFields.map(({ column }) => column).join());

const attemptKey = sql`attempt || ' ' || request_id`;

/**
 * `later`: what was corrected after a time, by attempt. An object, because the planner may execute a join with few expected rows once for each
 * record, and a join costs more where nothing was corrected.
 */
const withLater = (account: AccountId, correctedAfter: string) => sql`
  later as materialized (
    select jsonb_object_agg(attempt_key, amount) as amounts from (
      select ${attemptKey} as attempt_key, sum(amount)::bigint as amount from ledger_entry
      where account_id = ${account} and ${isCorrection} and posted_at > ${correctedAfter}::timestamptz group by 1) c
  )`;

/** Records of a span, with what was corrected of each later: it is not part of what was captured. Needs `withLater`. */
const fromRecords = ({ account, from, through }: Span, items?: number) => sql`
  from (
    select ${sealedColumns}, case when (select amounts from later) is not null
      then ((select amounts from later) ->> (${attemptKey}))::bigint end as later_amount
    from usage
    where account_id = ${account} and settled_at > ${from}::timestamptz and settled_at <= ${through}::timestamptz
    order by settled_at ${items === undefined ? sql`` : sql`fetch first ${sql.lit(items)} rows with ties`}
  ) u`;

const fromCorrections = ({ account, from, through }: Span) => sql`
  from ledger_entry c
  where account_id = ${account} and ${isCorrection} and posted_at > ${from}::timestamptz and posted_at <= ${through}::timestamptz`;

const digestOf = (text: RawBuilder<string>) => sql`sha256(textsend(${text}))`;

interface AddedDigests extends Omit<NewSegment, "segment" | "previous"> {
  readonly through: string;
  /** Everything up to the last moment of `head` is part of the segment. */
  readonly isLast: boolean;
}

/**
 * Adds the digests of the next segment, in any order: its own order is theirs. It has at most about `items` records and as many corrections:
 * those of one moment stay together. With fewer, it ends where everything is visible.
 */
async function addDigests(
  trx: Trx,
  account: AccountId,
  month: number,
  { segment, through: from, last }: Head,
  items: number,
): Promise<AddedDigests> {
  const span = { account, from, through: last };
  const { rows } = await sql<AddedDigests>`
    with ${withLater(account, from)}, span as materialized (
      select ${last}::timestamptz as last_at, coalesce(
        (select posted_at ${fromCorrections(span)} order by posted_at offset ${items - 1} limit 1), ${last}::timestamptz) as end_at
    ), page as materialized (
      select count(*)::int as records, coalesce(sum(u.charge - coalesce(u.later_amount, 0)), 0)::bigint as charged,
        coalesce(string_agg(${digestOf(recordText)}, ''), '') as digests,
        case when count(*) < ${items} then (select end_at from span) else max(u.settled_at) end as through_at
      ${fromRecords({ ...span, through: sql`(select end_at from span)` }, items)}
    ), fixes as materialized (
      select count(*)::int as corrections, coalesce(sum(c.amount), 0)::bigint as charged,
        coalesce(string_agg(${digestOf(correctionText)}, ''), '') as digests
      ${fromCorrections({ ...span, through: sql`(select through_at from page)` })}
    ), sealed as materialized (
      select page.digests || fixes.digests as digests from page, fixes
    ), added as (
      insert into usage_digests (account_id, month, segment, digests)
      select ${account}, ${month}::int, ${segment + 1}::int, digests from sealed where digests <> ''
    )
    select records, corrections, (page.charged + fixes.charged)::bigint as charged, encode(sha256(sealed.digests), 'hex') as digests_hash,
      through_at::text as through, ${us("through_at")}::float8 as through_us, through_at = last_at as is_last
    from span, page, fixes, sealed`.execute(trx);
  const [added] = rows;
  if (!added) throw new Error("no segment");
  return added;
}
