// Schema upgrades: of databases that earlier versions wrote, of several control planes at once, and of versions side by side.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PostgresAdapter, sql } from "kysely";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createUsageDays } from "../../../control-plane/billing/usage-days.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { readFacts } from "../../../control-plane/store/core/database-backup.ts";
import { MigrationRefused, migrateDatabase } from "../../../control-plane/store/core/migrate.ts";
import { ensureMoneyMonths } from "../../../control-plane/store/money/money-months.ts";
import { createUsageDayStore } from "../../../control-plane/store/money/usage-day-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { query } from "../../e2e/spine/database.ts";
import { catalogueOf } from "../../fakes/catalogue.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openBillingWorld } from "../billing/billing-world.ts";
import { log, patience, tokenPrice, usageRecord, wholeBooks } from "../billing/world.ts";

const folder = join(import.meta.dirname, "../../fixtures/databases");
const recorded = readdirSync(folder).filter((name) => name.endsWith(".sql"));

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());

/** A database as the version of that recording left it. */
async function restored(name: string): Promise<string> {
  const url = await postgres.createDatabase();
  await query(url, readFileSync(join(folder, name), "utf8"));
  return url;
}

const namesOf = async (url: string) =>
  (await query<{ name: string }>(url, "select name from kysely_migration order by name")).map(({ name }) => name);

/** Creates in each database the partitions that any of them has, and returns what `work` says of each. */
async function withSameMonths<T>(urls: readonly string[], work: (url: string) => Promise<T>): Promise<T[]> {
  const parts = "select substr(relname, 7) as month from pg_class where relname ~ '^usage_\\d{4}_\\d{2}$'";
  const found = await Promise.all(urls.map((url) => query<{ month: string }>(url, parts)));
  const months = new Set(found.flat().map(({ month }) => month.replace("_", "-")));
  return Promise.all(
    urls.map(async (url) => {
      const { db, close } = openDatabase(url, { maxConnections: 1, log });
      for (const month of months) await ensureMoneyMonths(db, new Date(month));
      await close();
      return work(url);
    }),
  );
}

describe.each(recorded)("a database of an earlier version (%s)", (name) => {
  it("has the same catalogue after the upgrade as a new database, and retains every row", async () => {
    const url = await restored(name);
    const { db, close } = openDatabase(url, { maxConnections: 1, log });
    const before = await readFacts(db);
    expect(Object.entries(before.rows).filter(([, count]) => count === 0)).toEqual([]);
    await migrateDatabase(url, { log });
    const { kysely_migration: _, usage_month, ...rows } = before.rows;
    // 0054 adds the names of three service tiers, 0066 has the sums of months in the table of days.
    const discount = (rows["discount"] ?? 0) + (name < "0054" ? 3 : 0);
    const moved = name < "0066" ? { usage_day: usage_month } : {};
    expect((await readFacts(db)).rows).toMatchObject({ ...rows, discount, ...moved });
    expect(await checkBooks(db)).toEqual(wholeBooks);
    await createUsageDays({ store: createUsageDayStore(db) }).divide(new AbortController().signal);
    expect(await query(url, "select from usage_undivided union all select from usage_day where day = 0")).toEqual([]);
    expect(await checkBooks(db)).toEqual(wholeBooks);
    await close();
    const fresh = await postgres.migratedDatabase();
    expect(await namesOf(url)).toEqual(await namesOf(fresh));
    const [upgraded, created] = await withSameMonths([url, fresh], catalogueOf);
    expect(created?.length).toBeGreaterThan(1_500);
    expect(upgraded).toEqual(created);
  });

  it("settles a request and closes a month after the upgrade", async () => {
    const url = await restored(name);
    await migrateDatabase(url, { log });
    const world = await openBillingWorld({ ...postgres, migratedDatabase: async () => url });
    const [row] = await query<{ account_id: AccountId }>(
      url,
      "select account_id from account where display_name = 'a1'",
    );
    const account = row?.account_id as AccountId;
    const before = await world.budget(account);
    const now = new Date();
    // A recording may hold entries of the month in which this test runs.
    const [posted] = await query<{ sum: string }>(
      url,
      `select coalesce(sum(amount), 0)::text as sum from ledger_entry where account_id = $1 and book = 'customer_spent' and kind <> 'invoice'
       and date_trunc('month', posted_at, 'UTC') = date_trunc('month', $2::timestamptz, 'UTC')`,
      [account, now],
    );
    const record = usageRecord(account, { input: 2_000, output: 3_000 });
    expect(await world.settlement.settle([record], "1")).toEqual([record.spoolId]);
    const charge = 5_000n * tokenPrice;
    expect(await world.budget(account)).toMatchObject({ spent: before.spent + charge });
    world.setClock(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1, 4));
    await world.billing.closeMonths();
    const month = now.getUTCFullYear() * 12 + now.getUTCMonth();
    const invoices = await world.db
      .selectFrom("invoice")
      .select("total")
      .where("accountId", "=", account)
      .where("month", "=", month)
      .execute();
    expect(invoices).toEqual([{ total: BigInt(posted?.sum ?? 0) + charge }]);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});

describe("a migration", () => {
  it("runs once when several control planes start together, and again changes nothing", async () => {
    const empty = await postgres.createDatabase();
    await Promise.all([1, 2, 3].map(() => migrateDatabase(empty, { log })));
    await migrateDatabase(empty, { log });
    expect(await query(empty, "select from account")).toEqual([]);
  });

  it("waits while another control plane migrates", async () => {
    const url = await restored("0041-shared-prefix-cache.sql");
    const { db, close } = openDatabase(url, { maxConnections: 1, log });
    const adapter = new PostgresAdapter();
    const lock = { lockTable: "", lockRowId: "" };
    await db.connection().execute(async (other) => {
      await adapter.acquireMigrationLock(other, lock);
      const migrating = migrateDatabase(url, { log });
      const waiting = "select from pg_locks where locktype = 'advisory' and not granted";
      await vi.waitFor(async () => expect(await query(url, waiting)).toHaveLength(1), patience);
      expect(await namesOf(url)).toContain("0041-shared-prefix-cache");
      await adapter.releaseMigrationLock(other, lock);
      await migrating;
    });
    await close();
    expect(await namesOf(url)).toContain("0041-baseline");
  });

  it("waits for a lock that another connection holds, logs who holds it, and runs once it is free", async () => {
    const url = await restored("0041-shared-prefix-cache.sql");
    const { db, close } = openDatabase(url, { maxConnections: 1, log });
    const lines: { readonly msg: string; readonly holders?: readonly string[] }[] = [];
    const seen = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
    let migrating: Promise<void> | undefined;
    await db.transaction().execute(async (other) => {
      await sql`set local idle_in_transaction_session_timeout = 0; lock table usage in access share mode`.execute(
        other,
      );
      migrating = migrateDatabase(url, { log: seen, lockTimeoutMs: 20 });
      migrating.catch(() => undefined);
      await vi.waitFor(() => expect(lines.filter(({ holders }) => holders).length).toBeGreaterThan(1), patience);
      // What was done before the lock was needed is undone, and no request queues behind it for long.
      expect(await namesOf(url)).toEqual(["0041-baseline"]);
      await query(url, "select count(*) from usage");
    });
    await migrating;
    await close();
    expect(lines.find(({ holders }) => holders)?.holders?.join()).toMatch(
      /^pid \d+ \(stoker, idle in transaction since /,
    );
    expect(lines.filter(({ msg }) => msg === "migration started").length).toBeGreaterThan(30);
    expect(await namesOf(url)).toContain("0068-mail");
  });

  it("is refused when its locks are not free in time, and changes nothing", async () => {
    const url = await restored("0041-shared-prefix-cache.sql");
    const { db, close } = openDatabase(url, { maxConnections: 1, log });
    await db.transaction().execute(async (other) => {
      await sql`set local idle_in_transaction_session_timeout = 0; lock table usage in access share mode`.execute(
        other,
      );
      const refused = migrateDatabase(url, { log, lockTimeoutMs: 20, maxWaitMs: 1_000 });
      await expect(refused).rejects.toThrow(MigrationRefused);
      await expect(refused).rejects.toThrow(/could not lock a table within 1 s.*longest open: pid \d+ \(stoker/s);
      expect(await namesOf(url)).toEqual(["0041-baseline"]);
    });
    await close();
  });

  it("runs again after a deadlock that ended it", async () => {
    const url = await restored("0041-shared-prefix-cache.sql");
    // What PostgreSQL does to one of two transactions that wait for each other, at the twentieth statement.
    await query(
      url,
      `create sequence statements;
       create function end_one() returns event_trigger language plpgsql as $$ begin
         if nextval('statements') = 20 then raise exception 'deadlock detected' using errcode = '40P01'; end if;
       end $$;
       create event trigger end_one on ddl_command_end execute function end_one()`,
    );
    const lines: { readonly msg: string }[] = [];
    const seen = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
    await migrateDatabase(url, { log: seen, lockTimeoutMs: 20 });
    expect(lines.filter(({ msg }) => msg.endsWith("will retry"))).toHaveLength(1);
    expect(await namesOf(url)).toContain("0081-unsummed-end-users");
  });

  it("ends between two attempts when the control plane stops", async () => {
    const url = await restored("0041-shared-prefix-cache.sql");
    const { db, close } = openDatabase(url, { maxConnections: 1, log });
    const stopping = new AbortController();
    const seen = pino(
      {},
      { write: (line: string) => void (JSON.parse(line).msg.endsWith("will retry") && stopping.abort()) },
    );
    await db.transaction().execute(async (other) => {
      await sql`set local idle_in_transaction_session_timeout = 0; lock table usage in access share mode`.execute(
        other,
      );
      const stopped = migrateDatabase(url, { log: seen, lockTimeoutMs: 20, signal: stopping.signal });
      await expect(stopped).rejects.toMatchObject({ name: "AbortError" });
      expect(await namesOf(url)).toEqual(["0041-baseline"]);
    });
    await close();
  });

  it("is refused while another control plane migrates for too long", async () => {
    const url = await postgres.migratedDatabase();
    const { db, close } = openDatabase(url, { maxConnections: 1, log });
    const adapter = new PostgresAdapter();
    const lock = { lockTable: "", lockRowId: "" };
    await db.connection().execute(async (other) => {
      await adapter.acquireMigrationLock(other, lock);
      await expect(migrateDatabase(url, { log, maxWaitMs: 20 })).rejects.toThrow(
        /Another control plane has been migrating/,
      );
      await adapter.releaseMigrationLock(other, lock);
    });
    await close();
  });

  it("prepares a new database for the month of its first credit", async () => {
    const url = await postgres.migratedDatabase();
    await query(
      url,
      "insert into ledger_entry (transaction_id, book, amount, kind) values ('t', 'customer_available', 1, 'credit')",
    );
    const [row] = await query<{ part: string; month: string }>(
      url,
      "select tableoid::regclass::text as part, to_char(posted_at at time zone 'utc', '\"ledger_entry_\"YYYY_MM') as month from ledger_entry",
    );
    expect(row?.part).toBe(row?.month);
  });

  it("is refused before the baseline, and the error names the version to start first", async () => {
    const url = await restored("0041-shared-prefix-cache.sql");
    await query(url, "delete from kysely_migration where name > '0036-kept-deployments'");
    const before = await namesOf(url);
    await expect(migrateDatabase(url, { log })).rejects.toThrow(MigrationRefused);
    await expect(migrateDatabase(url, { log })).rejects.toThrow(
      /is at migration 0036-kept-deployments.*Start commit [0-9a-f]{7} of Stoker 0\.1\.0 on it once, then this version\./,
    );
    expect(await namesOf(url)).toEqual(before);
  });
});

describe("a control plane older than its database", () => {
  const newer = async (required?: string) => {
    const url = await postgres.migratedDatabase();
    await query(
      url,
      "insert into kysely_migration (name, timestamp) values ('9999-later', '2099-01-01T00:00:00.000Z')",
    );
    if (required) await query(url, `update schema_requirement set migration = '${required}'`);
    return url;
  };

  it("starts when the newer schema supports it, and leaves the schema unchanged", async () => {
    const url = await newer();
    const before = [await namesOf(url), await catalogueOf(url)];
    const lines: string[] = [];
    await migrateDatabase(url, { log: pino({}, { write: (line: string) => void lines.push(line) }) });
    expect(lines.join()).toContain("the database is newer than this version, and supports it");
    expect([await namesOf(url), await catalogueOf(url)]).toEqual(before);
  });

  it("refuses when the newer schema requires an unknown migration, and says what to do", async () => {
    const url = await newer("9999-later");
    await expect(migrateDatabase(url, { log })).rejects.toThrow(MigrationRefused);
    await expect(migrateDatabase(url, { log })).rejects.toThrow(/newer version.*9999-later.*Start the newer version/s);
  });
});
