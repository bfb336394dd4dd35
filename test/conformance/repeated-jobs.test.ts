// The repeated jobs over BullMQ's PostgreSQL backend, on a real server that is killed and wiped.
import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { createRepeatedJobs, type RepeatedJob } from "../../control-plane/jobs/repeated-jobs.ts";
import { query } from "../e2e/spine/database.ts";
import { startPostgres, type TestPostgres } from "../fakes/postgres.ts";

const patient = { timeout: 30_000, interval: 50 };
const log = pino({ level: "silent" });
let postgres: TestPostgres;
let databaseUrl: string;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());
beforeEach(async () => {
  databaseUrl = await postgres.createDatabase();
});

function start(jobs: readonly RepeatedJob[]) {
  const registry = new Registry();
  const running = createRepeatedJobs({
    address: { databaseUrl },
    jobs,
    log,
    registry,
    keepFinishedMs: 60_000,
    lookEveryMs: 300,
  });
  running.start();
  onTestFinished(() => running.stop());
  return { registry, stop: () => running.stop() };
}

describe("repeated jobs in PostgreSQL", () => {
  it("are done again and again, each turn by one of two control planes", async () => {
    const turns: number[] = [];
    const job = (who: number): RepeatedJob => ({ name: "count", everyMs: 400, run: async () => void turns.push(who) });
    const beganMs = performance.now();
    start([job(1)]);
    start([job(2)]);
    await vi.waitFor(() => expect(turns.length).toBeGreaterThanOrEqual(5), patient);
    const possible = (performance.now() - beganMs) / 400;
    // Twice as many if both did every turn.
    expect(turns.length).toBeLessThanOrEqual(possible + 2);
  });

  it("go on after the server was killed, and are scheduled anew when the queue was wiped", async () => {
    let turns = 0;
    const count = () => {
      turns += 1;
    };
    start([{ name: "count", everyMs: 200, run: async () => count() }]);
    await vi.waitFor(() => expect(turns).toBeGreaterThan(1), patient);
    await postgres.kill9();
    await postgres.restart();
    const before = turns;
    await vi.waitFor(() => expect(turns).toBeGreaterThan(before + 1), patient);

    const tables = await query<{ name: string }>(
      databaseUrl,
      `select format('%I.%I', schemaname, tablename) as name from pg_tables
       where schemaname = 'stoker_jobs' and tablename not like '%migration%'`,
    );
    expect(tables.length).toBeGreaterThan(0);
    await query(databaseUrl, `truncate ${tables.map(({ name }) => name).join(", ")} cascade`);
    const wiped = turns;
    await vi.waitFor(() => expect(turns).toBeGreaterThan(wiped + 1), patient);
  });

  it("that fail are counted and tried again at their next turn, beside the others", async () => {
    let turns = 0;
    const count = () => {
      turns += 1;
    };
    const { registry } = start([
      {
        name: "fails",
        everyMs: 200,
        run: async () => {
          throw new Error("as the test wants");
        },
      },
      { name: "works", everyMs: 200, run: async () => count() },
    ]);
    await vi.waitFor(async () => {
      expect(turns).toBeGreaterThan(1);
      const { values } = await registry.getSingleMetricAsString("stoker_job_runs_total").then((text) => ({
        values: [...text.matchAll(/job="fails",outcome="failed"\} (\d+)/g)].map(([, n]) => Number(n)),
      }));
      expect(values[0]).toBeGreaterThan(1);
    }, patient);
  });

  it("stop in bounded time, also when the server is away", async () => {
    let turns = 0;
    const count = () => {
      turns += 1;
    };
    const { stop } = start([{ name: "count", everyMs: 200, run: async () => count() }]);
    await vi.waitFor(() => expect(turns).toBeGreaterThan(0), patient);
    await postgres.kill9();
    const beganMs = performance.now();
    await stop();
    expect(performance.now() - beganMs).toBeLessThan(12_000);
    await postgres.restart();
  });
});
