// Cost of settlement, usage pages, invoices and month closing in databases of different sizes on one PostgreSQL, in interleaved rounds.
// `--records N` (10,000,000) is the largest; another has a quarter of them, a third none but the measured accounts'. Needs about 2 KB of
// disk for each record of all databases, in TMPDIR.
import pg from "pg";
import { pino } from "pino";
import { Registry } from "prom-client";
import { createBillingMetrics } from "../control-plane/billing/metrics.ts";
import { createMonthClosing } from "../control-plane/billing/months.ts";
import { monthStartMs } from "../control-plane/billing/period.ts";
import { createQuarantine } from "../control-plane/billing/quarantine.ts";
import { monthScopes } from "../control-plane/billing/scopes.ts";
import { createSettlement } from "../control-plane/billing/settle.ts";
import { checkBooks } from "../control-plane/store/core/check-books.ts";
import { openDatabase } from "../control-plane/store/core/database.ts";
import { expireUsage } from "../control-plane/store/money/expired-usage.ts";
import { createInvoiceStore } from "../control-plane/store/money/invoice-store.ts";
import { ensureMoneyMonths } from "../control-plane/store/money/money-months.ts";
import { createQuarantineStore } from "../control-plane/store/money/quarantine-store.ts";
import { createRequestLogStore } from "../control-plane/store/money/request-log-store.ts";
import { createSettlementStore } from "../control-plane/store/money/settlement-store.ts";
import { createUsageDayStore } from "../control-plane/store/money/usage-day-store.ts";
import { createUsageStore } from "../control-plane/store/money/usage-store.ts";
import type { AccountId } from "../proto/ids.ts";
import { startPostgres } from "../test/fakes/postgres.ts";
import type { BenchOptions } from "./figures.ts";
import { fillTemplates, fillUsage, withoutIndexes } from "./growth-fill.ts";
import { median } from "./load.ts";
import { type BenchRecord, host, seal, seedAccounts, usageRecord } from "./money.ts";
import { childrenCpuMs, parentOf } from "./process-usage.ts";

const log = pino({ level: "silent" });
const accounts = 1_000;
/** The usage pages of these accounts only are measured: they have the same content in every database. */
const measured = [...Array(50).keys()];
const measuredRecords = 20_000;
/** Months that the records are spread over, the current one included. */
const months = 3;
const group = 50;
const dayMs = 86_400_000;
const settings = ["shared_buffers=2GB", "max_wal_size=4GB", "maintenance_work_mem=256MB", "checkpoint_timeout=15min"];

export async function benchGrowth({ rounds, rest, figures }: BenchOptions): Promise<void> {
  const records = rest.includes("--records") ? Number(rest[rest.indexOf("--records") + 1]) : 10_000_000;
  const postgres = await startPostgres({ onDisk: true, settings });
  const open: Installation[] = [];
  try {
    for (const size of [0, Math.round(records / 4), records])
      open.push(await prepare(await postgres.migratedDatabase(), size));
    print(`growth: ${open.map(({ size }) => size.toLocaleString("en")).join(", ")} more records; ${rounds} rounds`);
    print(
      "milliseconds of CPU (this process and PostgreSQL) with the smallest, and ratios of the larger ones; wall time beside them",
    );
    for (const [title, limit, work] of works) {
      const cpu = open.map((): number[] => []);
      const wall = open.map((): number[] => []);
      for (let round = -1; round < rounds; round++)
        for (const [i, installation] of open.entries()) {
          const before = installation.cpuMs();
          const startedMs = performance.now();
          const count = await work(installation);
          const [ms, cpuMs] = [performance.now() - startedMs, installation.cpuMs() - before];
          if (round < 0) continue; // Warms caches and compilers.
          wall[i]?.push(ms / count);
          cpu[i]?.push(cpuMs / count);
        }
      const ratios = (cpu.at(-1) ?? []).map((ms, round) => ms / (cpu[0]?.[round] ?? Number.NaN));
      const name = `${title}, CPU with ${records} records / without`;
      const verdict = figures.judge({ name, values: ratios, ...(limit === undefined ? {} : { atMost: limit }) });
      print(line(title, verdict, records, cpu.map(median), wall.map(median)));
    }
    for (const installation of open) print(await closeAll(installation));
    for (const installation of open) print(await expireOne(installation));
  } finally {
    for (const { close } of open) await close();
    await postgres.stop();
  }
}

function line(title: string, verdict: string, records: number, cpu: readonly number[], wall: readonly number[]) {
  const [base = 0, ...larger] = cpu;
  const [baseWall = 0, ...largerWall] = wall;
  const ratios = (of: readonly number[], to: number) => of.map((ms) => `x ${(ms / to).toFixed(2)}`).join(" ");
  const [quarter = base, whole = base] = larger;
  // Depths of indexes grow by the logarithm: each further factor of 4 costs what the last one did.
  const atHundredMillion = whole * (whole / quarter) ** (Math.log(1e8 / records) / Math.log(4));
  return (
    `${title.padEnd(46)} ${base.toFixed(3).padStart(8)} ms CPU  ${ratios(larger, base)}  ${verdict}  ` +
    `x ${(atHundredMillion / base).toFixed(1)} at 100 M by the last factor of 4  wall ${baseWall.toFixed(2)} ms ${ratios(largerWall, baseWall)}`
  );
}

type Installation = Awaited<ReturnType<typeof prepare>>;

async function prepare(url: string, size: number) {
  const { db, close } = openDatabase(url, { maxConnections: 4, log, statementTimeoutMs: 0 });
  const client = new pg.Client(url);
  client.on("error", () => {});
  await client.connect();
  const nowMs = Date.now();
  for (let month = 0; month < months; month++) await ensureMoneyMonths(db, startOfMonth(nowMs, month));
  await client.query("begin");
  await seedAccounts(client, [...Array(accounts).keys()]);
  await client.query("commit");
  const metrics = createBillingMetrics(new Registry());
  const settlement = createSettlement({
    store: createSettlementStore(db, monthScopes),
    seals: { newest: () => seal, find: () => seal.bytes },
    quarantine: createQuarantine({ store: createQuarantineStore(db), metrics, log }),
    log,
    metrics,
    gatherMs: 0,
  });
  const settle = async (batch: readonly BenchRecord[]) => {
    const wires = batch.map(({ wire }) => wire);
    if ((await settlement.settle(wires, "1", host)).length !== batch.length) throw new Error("not settled");
  };
  // The product writes the rows that the fill multiplies.
  for (let first = 0; first < accounts; first += group) await settle(recordsOf(first, group));
  await fillTemplates(client, { measured: measured.map((n) => `u:${n}`), months });
  await fillUsage(client, "measured", measuredRecords);
  await client.query("analyze");
  const books = await checkBooks(db);
  const wrong = Object.entries(books).filter(([, found]) => (Array.isArray(found) ? found.length > 0 : found !== 0n));
  if (wrong.length > 0) throw new Error(`the fill differs from settlement: ${JSON.stringify(wrong).slice(0, 500)}`);
  const startedMs = performance.now();
  const report = (done: number) => {
    if (done % 1_000_000 === 0) print(`  ${done.toLocaleString("en")} of ${size.toLocaleString("en")} records`);
  };
  await withoutIndexes(client, () => fillUsage(client, "others", size, report));
  await client.query("vacuum analyze");
  const { rows } = await client.query("select pg_database_size(current_database()) as bytes");
  const bytes = Number(rows[0].bytes);
  const perRecord = size > 0 ? `, ${Math.round(bytes / size)} bytes a record` : "";
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(0);
  print(`  a database of ${(bytes / 1e9).toFixed(2)} GB${perRecord}, filled in ${seconds} s`);
  const stores = {
    usage: createUsageStore(db),
    days: createUsageDayStore(db),
    log: createRequestLogStore(db),
    invoices: createInvoiceStore(db),
  };
  const { rows: backends } = await client.query("select pg_backend_pid() as pid");
  const server = parentOf(backends[0].pid);
  return {
    db,
    size,
    client,
    cpuMs() {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000 + childrenCpuMs(server);
    },
    settle,
    stores,
    async close() {
      await client.end();
      await close();
    },
  };
}

const recordsOf = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => {
    const n = (first + i) % accounts;
    return usageRecord(n, {
      model: `org/model-${n % 11}`,
      ...(n % 2 === 0 ? { endUser: `user-${n % 40}` } : {}),
    });
  });

/** Returns how many operations it did. */
type Work = (installation: Installation) => Promise<number>;

async function repeat(times: number, work: () => Promise<unknown>): Promise<number> {
  for (let i = 0; i < times; i++) await work();
  return times;
}

const account = "u:7" as AccountId;
const month = (at: number) => new Date(at).getUTCFullYear() * 12 + new Date(at).getUTCMonth();
const range = () => ({ fromMs: Date.now() - 62 * dayMs, toMs: Date.now() });

const works: readonly (readonly [string, number | undefined, Work])[] = [
  [
    `settlement of one record in groups of ${group}`,
    1.2,
    async ({ settle }) => {
      const batches = Array.from({ length: 20 }, () => recordsOf(Math.floor(Math.random() * accounts), group));
      return group * (await repeat(batches.length, async () => settle(batches.pop() as BenchRecord[])));
    },
  ],
  [
    "usage of three months (/payment/usage)",
    1.5,
    ({ stores }) => repeat(20, () => stores.usage.monthLines(account, month(Date.now()) - 2, month(Date.now()))),
  ],
  [
    "usage of 62 days by model (/v1/usage/days)",
    1.5,
    ({ stores }) => repeat(20, () => stores.days.dayUse(account, "model", range().fromMs, range().toMs, 20_000)),
  ],
  [
    "usage of 62 days by end user",
    1.5,
    ({ stores }) => repeat(20, () => stores.days.dayUse(account, "user", range().fromMs, range().toMs, 20_000)),
  ],
  [
    "first page of requests (/v1/requests)",
    1.5,
    ({ stores }) => repeat(20, () => stores.log.page(account, range(), undefined, 100)),
  ],
  [
    "a later page of requests",
    1.5,
    async ({ stores }) => {
      const page = await stores.log.page(account, range(), undefined, 100);
      const after = await stores.log.position(account, (page.at(-1) as (typeof page)[0]).id);
      return 2 + (await repeat(20, () => stores.log.page(account, range(), after, 100)));
    },
  ],
  [
    "invoice of a month (read, not written)",
    1.5,
    ({ stores }) => repeat(20, () => stores.invoices.close(account, month(Date.now()) - 1, () => undefined)),
  ],
  [
    "invoice of the largest account (a tenth of all)",
    undefined,
    ({ stores }) =>
      repeat(20, () => stores.invoices.close("u:100" as AccountId, month(Date.now()) - 1, () => undefined)),
  ],
];

/** Closes the months before this one for every account, in the product's pages. */
async function closeAll({ stores, size }: Installation): Promise<string> {
  const closing = createMonthClosing({ store: stores.invoices, log });
  const startedMs = performance.now();
  const invoices = await closing.closeMonths();
  const ms = performance.now() - startedMs;
  return `${size.toLocaleString("en").padStart(12)} records: ${invoices} invoices of closed months in ${(ms / 1000).toFixed(1)} s, ${(ms / invoices).toFixed(1)} ms each`;
}

/** Removes the oldest month while settlements run, and returns how long the slowest of them took. */
async function expireOne({ db, settle, size }: Installation): Promise<string> {
  let isDone = false;
  const batches = Array.from({ length: 2_000 }, () => recordsOf(Math.floor(Math.random() * accounts), 1));
  const slowest = async (until: () => boolean) => {
    let max = 0;
    for (let batch = batches.pop(); batch && !until(); batch = batches.pop()) {
      const startedMs = performance.now();
      await settle(batch);
      max = Math.max(max, performance.now() - startedMs);
    }
    return max;
  };
  let left = 200;
  const usual = await slowest(() => left-- === 0);
  const beside = slowest(() => isDone);
  const startedMs = performance.now();
  const removed = await expireUsage(db, startOfMonth(Date.now(), months - 2), 1_000);
  const ms = performance.now() - startedMs;
  isDone = true;
  return (
    `${size.toLocaleString("en").padStart(12)} records: the oldest month (about ${removed.toLocaleString("en")}) was removed in ${ms.toFixed(0)} ms; ` +
    `slowest settlement ${(await beside).toFixed(0)} ms beside it, ${usual.toFixed(0)} ms of 200 before`
  );
}

const startOfMonth = (nowMs: number, ago: number) => new Date(monthStartMs(month(nowMs) - ago));
const print = (line: string) => void process.stdout.write(`${line}\n`);
