// Time series on a real PostgreSQL: sums of several control planes, samples of hosts, spend of the ledger, roll-ups.
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { keptMs } from "../../../control-plane/series/kept.ts";
import { createSeries, type SeriesReader } from "../../../control-plane/series/series.ts";
import type { RequestRow, SeriesStore } from "../../../control-plane/series/store.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createSeriesStore } from "../../../control-plane/store/fleet/series-store.ts";
import type { AccountId, HostId, ReplicaId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";

const log = pino({ level: "silent" });
const [one, two] = ["replica-1", "replica-2"] as [ReplicaId, ReplicaId];
const [ada, bob] = ["u:ada", "u:bob"] as [AccountId, AccountId];
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const nowMs = Date.now();
const minuteAgo = (minutes: number) => Math.floor(nowMs / minuteMs - minutes) * minuteMs;

let postgres: TestDatabases;
let database: OpenDatabase;
let store: SeriesStore;
let series: SeriesReader;

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  database = openDatabase(await postgres.migratedDatabase(), { maxConnections: 4, log });
  store = createSeriesStore(database.db);
  series = createSeries({ store, reports: { run: (_, read) => read() } });
  return () => database.close();
});

const row = (atMs: number, requests: number, account: string = ada, model = ""): RequestRow => ({
  atMs,
  account,
  model,
  sums: {
    requests,
    clientErrors: 1,
    serverErrors: 0,
    aborted: 0,
    inputTokens: 10 * requests,
    outputTokens: 5 * requests,
    firstMs: [0, 0, requests],
    totalMs: [0, 0, 0, 0, requests],
  },
});
const last = (ms: number, stepSeconds?: number) => ({ fromMs: nowMs - ms, toMs: nowMs + minuteMs, stepSeconds });
const sum = (values: readonly (number | null)[] | undefined) =>
  values?.reduce<number>((all, value) => all + (value ?? 0), 0);
const named = (answer: Awaited<ReturnType<SeriesReader["requests"]>>, name: string, label?: string) =>
  answer.series.find(
    (found) => found.name === name && (label === undefined || Object.values(found.labels).includes(label)),
  )?.values;
const count = async (table: string, step: number) =>
  Number((await database.pool.query(`select count(*) as n from ${table} where step = $1`, [step])).rows[0].n);

describe("series of requests", () => {
  it("add the sums of all control planes, however often each writes them", async () => {
    for (const requests of [3, 5, 5]) await store.writeRequests(one, [row(minuteAgo(2), requests)]);
    await store.writeRequests(two, [row(minuteAgo(2), 7)]);
    const answer = await series.requests(ada, { account: ada }, last(hourMs));
    expect(sum(named(answer, "requests"))).toBe(12);
    expect(sum(named(answer, "errors_4xx"))).toBe(2);
    expect(sum(named(answer, "output_tokens"))).toBe(60);
    const at = answer.times.indexOf(minuteAgo(2) / 1000);
    expect(named(answer, "requests")?.[at]).toBe(12);
    expect(named(answer, "ttft_p95_ms")?.[at]).toBeCloseTo(1.4, 1);
    expect(named(answer, "ttft_p95_ms")?.[at - 1]).toBeNull();
  });

  it("show an account nothing of another one", async () => {
    await store.writeRequests(one, [
      row(minuteAgo(2), 3),
      row(minuteAgo(2), 100, bob),
      row(minuteAgo(2), 50, bob, "m"),
    ]);
    expect(sum(named(await series.requests(ada, { account: ada }, last(hourMs)), "requests"))).toBe(3);
    const byModel = await series.requests(ada, { account: ada, by: "model" }, last(hourMs));
    expect(byModel.series).toEqual([]);
  });

  it("are divided by the accounts or models with the most requests, with their names", async () => {
    await database.pool.query(
      "insert into account (account_id, email, display_name, wrapped_dek, kek_version) values ('u:ada', 'ada@example.com', 'ada', '', 1)",
    );
    const models = ["m1", "m2", "m3"].map((model, i) => row(minuteAgo(3), 10 - i, ada, model));
    await store.writeRequests(one, [...models, row(minuteAgo(3), 27, ada), row(minuteAgo(3), 1, bob)]);
    const byModel = await series.requests(ada, { account: ada, by: "model", limit: 2 }, last(hourMs));
    expect(new Set(byModel.series.map(({ labels }) => labels["model"]))).toEqual(new Set(["m1", "m2"]));
    const byAccount = await series.requests(ada, { by: "account" }, last(hourMs));
    expect(sum(named(byAccount, "requests", ada))).toBe(27);
    expect(byAccount.series[0]?.labels).toEqual({ account: ada, name: "ada@example.com" });
  });

  it("keep their sums and percentiles when minutes become longer rows, whoever rolls them up", async () => {
    const rows = Array.from({ length: 200 }, (_, i) => row(minuteAgo(i + 700), i + 1));
    await store.writeRequests(one, rows);
    const range = last(20 * hourMs, 1_200);
    const before = await series.requests(ada, { account: ada }, range);
    await Promise.all([store.rollUp(), store.rollUp()]);
    await store.rollUp();
    expect(await count("request_series", 10)).toBeGreaterThan(19);
    expect(await count("request_series", 360)).toBeGreaterThan(0);
    await database.pool.query("delete from request_series where step = 1");
    const after = await series.requests(ada, { account: ada }, range);
    for (const name of ["requests", "output_tokens", "total_p95_ms"])
      expect(named(after, name)).toEqual(named(before, name));
    const month = await series.requests(ada, { account: ada }, last(30 * 24 * hourMs));
    expect(sum(named(month, "requests"))).toBe(20_100);
  });

  it("end with the minutes that are not rolled up yet", async () => {
    await store.writeRequests(one, [row(minuteAgo(1), 4), row(minuteAgo(100), 6)]);
    await store.rollUp();
    expect(sum(named(await series.requests(ada, { account: ada }, last(3 * 24 * hourMs)), "requests"))).toBe(10);
  });

  it("have what was charged, once, by account and model", async () => {
    const entries = [
      [ada, "m1", 5_000_000_000n, 3],
      [ada, "m1", 1_000_000_000n, 3],
      [ada, null, 2_000_000_000n, 2],
      [bob, "m2", 7_000_000_000n, 2],
    ] as const;
    for (const [account, model, amount, ago] of entries)
      for (const [book, sign] of [
        ["customer_spent", 1n],
        ["customer_available", -1n],
      ] as const)
        await database.pool.query(
          "insert into ledger_entry (transaction_id, book, account_id, amount, kind, model, posted_at) values ('t', $1, $2, $3, 'capture', $4, $5)",
          [book, account, sign * amount, model, new Date(minuteAgo(ago))],
        );
    await Promise.all([store.writeSpend(), store.writeSpend()]);
    await store.writeSpend();
    await store.writeRequests(one, [row(minuteAgo(3), 4)]);
    const own = await series.requests(ada, { account: ada }, last(hourMs));
    expect(sum(named(own, "spend_usd"))).toBe(8);
    expect(sum(named(await series.requests(ada, {}, last(hourMs)), "spend_usd"))).toBe(15);
    const byModel = await series.requests(ada, { account: ada, by: "model" }, last(hourMs));
    expect(sum(named(byModel, "spend_usd", "m1"))).toBe(6);
    await store.rollUp();
    expect(sum(named(await series.requests(ada, {}, last(3 * 24 * hourMs)), "spend_usd"))).toBe(15);
  });

  it("have the figures of the present, of all control planes", async () => {
    const current = (await database.pool.query("select extract(epoch from date_trunc('minute', now())) * 1000 as at"))
      .rows[0].at;
    await store.writeRequests(one, [row(Number(current), 3), row(Number(current), 4, "")]);
    await store.writeRequests(two, [row(Number(current) - minuteMs, 5), row(Number(current) - 5 * minuteMs, 100)]);
    const live = await store.live(["", ada, bob]);
    expect(live.get(ada)).toMatchObject({ requests: 8, errors: 2, outputTokens: 40, firstMs: [0, 0, 8] });
    expect(live.get("")?.requests).toBe(4);
    expect(live.get(ada)?.seconds).toBeGreaterThanOrEqual(60);
    expect(live.has(bob)).toBe(false);
  });

  it("are deleted when their period has passed", async () => {
    await store.writeRequests(one, [row(minuteAgo(25 * 60), 1), row(minuteAgo(1), 1)]);
    expect(await store.deleteOld(1, keptMs[1], 100)).toBe(1);
    expect(await count("request_series", 1)).toBe(1);
  });
});

describe("series of hosts", () => {
  const live = (use: number | null, waiting: number) => ({
    load: { cpuRatio: 0.25, memoryUsedBytes: 1e9, memoryTotalBytes: 2e9 },
    gpus: [
      {
        uuid: "GPU-a",
        utilizationRatio: use,
        memoryUsedBytes: 5e9,
        memoryTotalBytes: 8e9,
        temperatureCelsius: 70,
        powerWatts: 300,
      },
      {
        uuid: "GPU-b",
        utilizationRatio: use,
        memoryUsedBytes: 1e9,
        memoryTotalBytes: 8e9,
        temperatureCelsius: 50,
        powerWatts: 100,
      },
    ],
    instances: [{ instanceId: "i", inFlight: 3, waiting, gpuUuids: ["GPU-a"] }],
  });
  const report = (host: string, figures: object, ago = "1 second") =>
    database.pool.query(
      `insert into host (host_id, hostname, advertise, inventory, node_epoch, ticket_key, agent_version, live, reported_at)
       values ($1, $2, 'http://127.0.0.1:1', '{}', 1, '', '1', $3, now() - $4::interval)
       on conflict (host_id) do update set live = excluded.live, reported_at = excluded.reported_at`,
      [host, `gpu-${host}`, JSON.stringify(figures), ago],
    );
  const fleet = (ms = hourMs) => series.hosts(ada, { by: "fleet" }, last(ms));

  it("sample each host that reports once in a minute, and all together", async () => {
    await report("h1", live(0.5, 2));
    await report("h2", live(1, 0));
    await report("silent", live(1, 9), "5 minutes");
    await Promise.all([store.sampleHosts(30_000), store.sampleHosts(30_000)]);
    const all = await fleet();
    expect(named(all, "gpus")?.filter(Boolean)).toEqual([4]);
    expect(named(all, "gpus_held")?.filter(Boolean)).toEqual([2]);
    expect(named(all, "gpu_use_ratio")?.filter(Boolean)).toEqual([0.75]);
    expect(named(all, "gpu_power_watts")?.filter(Boolean)).toEqual([800]);
    expect(named(all, "gpu_temperature_celsius")?.filter(Boolean)).toEqual([70]);
    expect(named(all, "waiting_requests")?.filter(Boolean)).toEqual([2]);
    const each = await series.hosts(ada, { by: "host" }, last(hourMs));
    expect(new Set(each.series.map(({ labels }) => JSON.stringify(labels)))).toEqual(
      new Set(['{"host":"h1","name":"gpu-h1"}', '{"host":"h2","name":"gpu-h2"}']),
    );
    const gpus = await series.gpus(ada, "h1" as HostId, last(hourMs));
    expect(named(gpus, "gpu_memory_used_bytes", "GPU-a")?.filter(Boolean)).toEqual([5e9]);
  });

  it("are summed for the present, also while no host reports", async () => {
    expect(await store.liveFleet(15_000)).toBeUndefined();
    await report("h1", live(0.5, 2));
    await report("silent", live(1, 9), "1 minute");
    expect(await store.liveFleet(15_000)).toMatchObject({ gpus: 2, gpusHeld: 1, gpuUse: 0.5, running: 3, waiting: 2 });
  });

  it("have none without a report, and take no figure that cannot be", async () => {
    await store.sampleHosts(30_000);
    expect((await fleet()).series).toEqual([]);
    await report("h1", { gpus: [{ uuid: "GPU-a", powerWatts: 1e300, utilizationRatio: -5 }], instances: [] });
    await report("h2", { gpus: [], instances: [] });
    await store.sampleHosts(30_000);
    expect(named(await fleet(), "gpu_power_watts")?.filter(Boolean)).toEqual([1e15]);
  });

  it("keep means, and maxima of temperature and queue, when minutes become longer rows", async () => {
    const at = Math.floor(minuteAgo(700) / (10 * minuteMs)) * 10 * minuteMs;
    for (const [i, waiting] of [1, 9].entries()) {
      await report("h1", live(i, waiting));
      await store.sampleHosts(30_000);
      await database.pool.query("update host_series set at = $1 where at > now() - interval '2 minutes'", [
        new Date(at + i * minuteMs),
      ]);
    }
    await store.rollUp();
    await database.pool.query("delete from host_series where step = 1");
    const all = await fleet(3 * 24 * hourMs);
    expect(named(all, "gpu_use_ratio")?.filter(Boolean)).toEqual([0.5]);
    expect(named(all, "waiting_requests")?.filter(Boolean)).toEqual([9]);
    const gpus = await series.gpus(ada, "h1" as HostId, last(3 * 24 * hourMs));
    expect(named(gpus, "gpu_use_ratio", "GPU-b")?.filter(Boolean)).toEqual([0.5]);
  });
});
