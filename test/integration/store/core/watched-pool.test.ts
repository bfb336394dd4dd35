// Which failures count as a frozen database: the check itself must cause no false alarm and no false all-clear.
import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { CheckOptions } from "../../../../control-plane/store/core/reply-check.ts";
import { watchPool } from "../../../../control-plane/store/core/watched-pool.ts";
import { startPostgres, type TestPostgres } from "../../../fakes/postgres.ts";
import { startTcpLink } from "../../../fakes/tcp-link.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** `checkUrl`: where the connection of the checks goes. */
function openPool(checkUrl: string, options: Partial<CheckOptions> = {}) {
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const pool = new pg.Pool({ connectionString: postgres.url, max: 5 }).on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  const watched = watchPool(pool, { connectionString: checkUrl, log, ...options });
  onTestFinished(() => watched.end());
  const query = async (text: string) => {
    const client = await watched.connect();
    try {
      return await client.query(text, []);
    } finally {
      client.release();
    }
  };
  return { query, lines };
}

async function startLink() {
  const link = await startTcpLink(Number(new URL(postgres.url).port));
  onTestFinished(() => link.close());
  const url = new URL(postgres.url);
  url.port = String(link.port);
  return { link, url: url.href };
}

it("reports no reply until there is one, however many checks are abandoned", async () => {
  const { query, lines } = openPool(postgres.url, { attemptMs: 300 });
  await query("select 1");
  postgres.freeze();
  try {
    await expect(query("select 1")).rejects.toMatchObject({ params: { reason: "no_answer" } });
    // Several attempts of the check end in this time.
    await wait(2_000);
    await expect(query("select 1")).rejects.toMatchObject({ params: { reason: "no_answer" } });
    expect(lines).toEqual(["database not responding; refusing work that needs it"]);
  } finally {
    postgres.thaw();
  }
  await expect
    .poll(() =>
      query("select 1").then(
        () => true,
        () => false,
      ),
    )
    .toBe(true);
});

it("connects for its checks in advance", async () => {
  const { link, url } = await startLink();
  const { query, lines } = openPool(url);
  await query("select 1");
  await expect.poll(() => link.open).toBe(1);
  expect(lines).toEqual([]);
});

it("counts an error from PostgreSQL as a sign of life", async () => {
  const { link, url } = await startLink();
  const { query, lines } = openPool(url);
  await query("select 1");
  link.cut("silent");
  let isDone = false;
  const slow = query("select pg_sleep(2)").finally(() => {
    isDone = true;
  });
  slow.catch(() => {});
  while (!isDone) await Promise.all([query("select 1/0").catch(() => {}), wait(50)]);
  await slow;
  expect(lines).toEqual([]);
});
