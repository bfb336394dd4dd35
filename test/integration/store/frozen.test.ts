import { sql } from "kysely";
import { pino } from "pino";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());

it("rejects work in progress, waiting and new while PostgreSQL is frozen, and works again afterwards", async () => {
  const { db, close } = openDatabase(postgres.url, { maxConnections: 2, log: pino({ level: "info" }) });
  const ask = () => sql`select 1`.execute(db);
  await ask();
  postgres.freeze();
  const startedMs = performance.now();
  const answers = await Promise.allSettled([ask(), ask(), ask(), ask()]);
  expect(performance.now() - startedMs).toBeLessThan(2_000);
  for (const answer of answers)
    expect(answer).toMatchObject({
      status: "rejected",
      reason: { params: { reason: "no_answer" } },
    });
  await expect(ask()).rejects.toThrow(DatabaseUnavailable);
  postgres.thaw();
  await vi.waitFor(ask, { timeout: 20_000, interval: 50 });
  await close();
});
