// Reports on a read replica that PostgreSQL streams to: used while it is near, left when it lags, dies or freezes.
import { sql } from "kysely";
import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { openReportDatabase, type ReportDatabase } from "../../../control-plane/store/core/report-database.ts";
import { startPostgres, type TestPostgres, type TestStandby } from "../../fakes/postgres.ts";
import { postgresPrograms } from "../../fakes/postgres-programs.ts";

const programs = await postgresPrograms("reports on a read replica");
const log = pino({ level: "silent" });
const maxLagMs = 30_000;

describe.runIf(programs)("reports with a read replica", () => {
  let postgres: TestPostgres;
  let standby: TestStandby;
  let primary: OpenDatabase;
  let reports: ReportDatabase;
  let used: string[];
  let aheadMs: number;

  beforeAll(async () => {
    postgres = await startPostgres();
    const url = await postgres.migratedDatabase();
    primary = openDatabase(url, { maxConnections: 2, log });
    await sql`insert into replica (replica_id, epoch) values ('r', 1)`.execute(primary.db);
    standby = await postgres.standby(programs ?? "");
    reports = openReportDatabase({
      primary,
      replica: { url: url.replace(new URL(url).host, new URL(standby.url).host), maxLagMs },
      maxConnections: 2,
      nowMs: () => Date.now() + aheadMs,
      onQuery: (database) => used.push(database),
      log,
    });
  });
  afterAll(async () => {
    await reports.close();
    await primary.close();
    await standby.stop();
    await postgres.stop();
  });
  beforeEach(async () => {
    used = [];
    aheadMs = 0;
    await touch();
    await vi.waitFor(async () => {
      await reports.check();
      expect(reports.lagMs()).toBeLessThan(maxLagMs);
    }, 20_000);
  });

  /** What control planes do every ten seconds. */
  const touch = () => sql`update replica set seen_at = now()`.execute(primary.db);
  const accounts = async () =>
    Number((await reports.db.selectFrom("account").select(sql`count(*)`.as("n")).execute())[0]?.n);
  const addAccount = async () => {
    const n = crypto.randomUUID();
    await sql`insert into account (account_id, email, display_name, wrapped_dek, kek_version)
      values (${n}, ${n}, ${n}, '', 1)`.execute(primary.db);
  };
  async function onStandby(text: string): Promise<void> {
    const client = new pg.Client(standby.url);
    await client.connect();
    await client.query(text).finally(() => client.end());
  }

  it("reads what the replica received, with the primary's types", async () => {
    await addAccount();
    await vi.waitFor(async () => expect(await accounts()).toBe(1), 20_000);
    const row = await reports.db.selectFrom("replica").select(["epoch", "seenAt"]).executeTakeFirstOrThrow();
    expect(row).toEqual({ epoch: 1n, seenAt: expect.any(Date) });
    expect(new Set(used)).toEqual(new Set(["replica"]));
  });

  it("reads the primary while the replica is too far behind", async () => {
    const before = await accounts();
    await onStandby("select pg_wal_replay_pause()");
    onTestFinished(() => onStandby("select pg_wal_replay_resume()"));
    await addAccount();
    expect(await accounts()).toBe(before);
    // Half a minute later, nothing was replayed.
    aheadMs = 31_000;
    await sql`update replica set seen_at = now() + interval '31 seconds'`.execute(primary.db);
    await reports.check();
    expect(reports.lagMs()).toBeGreaterThan(maxLagMs);
    used = [];
    expect(await accounts()).toBe(before + 1);
    expect(used).toEqual(["primary"]);
  });

  it("reads the primary when the replica dies, from the first statement, and the replica when it is back", async () => {
    const before = await accounts();
    await standby.kill9();
    used = [];
    expect(await accounts()).toBe(before);
    expect(await accounts()).toBe(before);
    expect(used).toEqual(["primary", "primary"]);
    await reports.check();
    expect(reports.lagMs()).toBeUndefined();
    await standby.restart();
    await touch();
    await vi.waitFor(async () => {
      await reports.check();
      used = [];
      await accounts();
      expect(used).toEqual(["replica"]);
    }, 20_000);
  });

  it("answers from the primary while the replica is frozen", async () => {
    standby.freeze();
    onTestFinished(() => standby.thaw());
    await accounts();
    expect(used).toEqual(["primary"]);
  });

  it("ends a statement that takes too long instead of repeating it on the primary", async () => {
    await expect(sql`select pg_sleep(20)`.execute(reports.db)).rejects.toThrow("statement timeout");
    expect(used).toEqual([]);
  });

  it("repeats on the primary what the replica refuses", async () => {
    await sql`select setval('node_epoch', 1)`.execute(reports.db);
    expect(used).toEqual(["primary"]);
  });

  it("refuses transactions, whose statements would run on different connections", async () => {
    await expect(reports.db.transaction().execute((trx) => sql`select 1`.execute(trx))).rejects.toThrow("not a report");
    await expect(sql`delete from account`.execute(reports.db)).rejects.toThrow("not a report");
  });
});

it("uses the primary without a replica", async () => {
  const primary = openDatabase("postgresql://stoker@127.0.0.1:1/none", { maxConnections: 1, log });
  onTestFinished(() => primary.close());
  const settings = { primary, replica: undefined, maxConnections: 1, nowMs: Date.now, log };
  expect(openReportDatabase(settings).db).toBe(primary.db);
});

it("never reads the database of another installation, and says so", async () => {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const [url, foreign] = [await postgres.migratedDatabase(), await postgres.migratedDatabase()];
  const lines: string[] = [];
  const readable = pino({ level: "warn" }, { write: (line: string) => void lines.push(line) });
  const open = (at: string) => {
    const database = openDatabase(at, { maxConnections: 2, log });
    onTestFinished(() => database.close());
    return database;
  };
  const primary = open(url);
  await sql`insert into replica (replica_id, epoch) values ('ours', 1)`.execute(primary.db);
  await sql`insert into replica (replica_id, epoch) values ('theirs', 1)`.execute(open(foreign).db);
  const lagOf = async (of: string) => {
    const settings = { primary, replica: { url: of, maxLagMs }, maxConnections: 1, nowMs: Date.now, log: readable };
    const reports = openReportDatabase(settings);
    await reports.check();
    await reports.check();
    await reports.close();
    return reports.lagMs();
  };
  expect(await lagOf(url)).toBeLessThan(maxLagMs);
  expect(lines).toEqual([]);
  expect(await lagOf(foreign)).toBeUndefined();
  expect(lines.filter((line) => line.includes("another installation"))).toHaveLength(1);
});
