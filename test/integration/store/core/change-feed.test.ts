import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { announce, createChangeFeed } from "../../../../control-plane/store/core/change-feed.ts";
import { inTransaction, openDatabase } from "../../../../control-plane/store/core/database.ts";
import { startPostgres, type TestPostgres } from "../../../fakes/postgres.ts";

const log = pino({ level: "silent" });
const patience = { timeout: 20_000, interval: 20 };
let postgres: TestPostgres;
let url: string;

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());
beforeEach(async () => {
  url = await postgres.migratedDatabase();
});

function open() {
  const database = openDatabase(url, { maxConnections: 20, log });
  onTestFinished(() => database.close());
  return database;
}

async function follow(pool: ReturnType<typeof open>["pool"]) {
  const seen: string[] = [];
  const feed = createChangeFeed({ pool, log });
  feed.on("key", (subject) => seen.push(subject));
  await feed.start();
  onTestFinished(() => feed.stop());
  return seen;
}

describe("change feed", () => {
  it("delivers each committed change once, in commit order, and no rolled back one", async () => {
    const { db, pool } = open();
    const seen = await follow(pool);
    const subjects = Array.from({ length: 60 }, (_, i) => `k${i}`);
    await Promise.all(
      subjects.map((subject, i) =>
        inTransaction(db, async (trx) => {
          await announce(trx, "key", subject);
          if (i % 3 === 0) throw new Error("changed its mind");
        }).catch(() => {}),
      ),
    );
    // A pool that sixty callers wait for may turn some of them away: what was committed stands in the table.
    await vi.waitFor(async () => {
      const { rows } = await pool.query<{ subject: string }>("select subject from change order by seq");
      expect(rows.length).toBeGreaterThan(10);
      expect(seen).toEqual(rows.map((row) => row.subject));
    }, patience);
    expect(subjects.filter((subject, i) => i % 3 === 0 && seen.includes(subject))).toEqual([]);
  });

  it("skips changes before its start and delivers only its topics", async () => {
    const { db, pool } = open();
    await inTransaction(db, (trx) => announce(trx, "key", "old"));
    const seen = await follow(pool);
    await inTransaction(db, (trx) => announce(trx, "account", "other topic"));
    await inTransaction(db, (trx) => announce(trx, "key", "new"));
    await vi.waitFor(() => expect(seen).toEqual(["new"]), patience);
  });

  it("continues after PostgreSQL was killed and restarted, without a missing change", async () => {
    const { db, pool } = open();
    const seen = await follow(pool);
    await inTransaction(db, (trx) => announce(trx, "key", "before"));
    await vi.waitFor(() => expect(seen).toEqual(["before"]), patience);
    await postgres.kill9();
    await postgres.restart();
    await inTransaction(db, (trx) => announce(trx, "key", "after"));
    await vi.waitFor(() => expect(seen).toEqual(["before", "after"]), patience);
  });
});

describe("between replicas without NOTIFY", () => {
  it("the replica that reads a change informs the others once, which read immediately", async () => {
    const { pool } = open();
    const said: string[] = [];
    let tell = (_: string) => {};
    const wake = {
      publish: (message: string) => void said.push(message),
      on: (handler: typeof tell) => {
        tell = handler;
      },
    };
    const seen: string[] = [];
    const feed = createChangeFeed({ pool, log, wake });
    feed.on("key", (subject) => seen.push(subject));
    await feed.start();
    onTestFinished(() => feed.stop());
    const silently = "insert into change (topic, subject) values ('key', $1) returning seq";
    // By its own polling each would take a second.
    const before = performance.now();
    for (let i = 0; i < 10; i++) {
      const { rows } = await pool.query<{ seq: bigint }>(silently, [`told ${i}`]);
      tell("no number");
      tell(String(rows[0]?.seq));
      await vi.waitFor(() => expect(seen).toHaveLength(i + 1), patience);
    }
    expect(performance.now() - before).toBeLessThan(8_000);
    expect(said).toEqual([]);
    const { rows } = await pool.query<{ seq: bigint }>(silently, ["found"]);
    await vi.waitFor(() => expect(said).toEqual([String(rows[0]?.seq)]), patience);
    expect(seen.at(-1)).toBe("found");
  });
});
