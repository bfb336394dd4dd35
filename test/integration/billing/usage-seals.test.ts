// Sealed usage on a real PostgreSQL: every record is in one segment, what is exported verifies, and what was altered is named.
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { spineOfLines } from "../../../control-plane/batches/line-spine.ts";
import { createUsageSeals } from "../../../control-plane/billing/usage-seals.ts";
import { billedTier, ratesAt } from "../../../control-plane/inference/service-tier.ts";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";
import { up } from "../../../control-plane/store/migrations/0106-usage-seals.ts";
import { monthLines } from "../../../control-plane/store/money/usage-lines.ts";
import { type AccountId, randomId } from "../../../proto/ids.ts";
import { costOf, pricedPixels, type TokenRates } from "../../../proto/money.ts";
import { adapterPercent, discountedRates, surchargedRates } from "../../../proto/price-rules.ts";
import type { ServiceTier } from "../../../proto/service-tier.ts";
import type { SpooledRecord } from "../../../proto/usage-record.ts";
import { longer } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { by, usd } from "./billing-world.ts";
import {
  closeMonth,
  nextMonth,
  openSeals,
  priced,
  publicKeys,
  type SealsWorld,
  settle,
  verdictOf,
} from "./seals-world.ts";
import { log, patience, type RecordTerms, usageRecord } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());

const open = () => openSeals(postgres);

async function spendSome(world: SealsWorld, count: number, account?: AccountId): Promise<AccountId> {
  const owner = account ?? (await world.account(100n * usd));
  for (let from = 0; from < count; from += 500)
    await settle(
      world,
      ...Array.from({ length: Math.min(500, count - from) }, (_, i) =>
        usageRecord(owner, { input: 1_000_003 + from + i, output: 777 }, priced(world)),
      ),
    );
  return owner;
}

const linesOf = (text: string): readonly string[] => text.trimEnd().split("\n");

describe("sealed usage", () => {
  it("verifies as it was billed, in segments, with the invoice of the closed month", async () => {
    const world = await open();
    const account = await spendSome(world, 2_600);
    const text = await world.exported(account);
    const keys = await publicKeys(world);
    const before = await verdictOf(text, keys);
    expect(before).toMatchObject({ problems: [], notes: [], records: 2_600, isClosed: false, isKeyTrusted: true });
    expect(before.segments).toBe(3);
    // Nothing is sealed twice, and an export of the same records is the same file, except for its time.
    expect(linesOf(await world.exported(account)).slice(0, -1)).toEqual(linesOf(text).slice(0, -1));
    await closeMonth(world);
    const [invoice] = (await world.billing.invoices.list(account, 1, undefined)).invoices;
    const closed = await verdictOf(await world.exported(account), keys);
    expect(closed).toMatchObject({ problems: [], records: 2_600, isClosed: true, invoice: invoice?.id });
    expect(closed.total).toBe(invoice?.total);
    expect(closed.total).toBe((await world.budget(account)).spent);
  });

  it("is made by the job when a segment is full, and for every account when the month has ended", async () => {
    const world = await open();
    const seals = world.makeSeals(10);
    const count = async () =>
      (await world.pool.query("select count(*)::int as n from usage_segment")).rows[0].n as number;
    const run = () => seals.run(new AbortController().signal);
    const [busy, quiet] = [await spendSome(world, 10), await spendSome(world, 3)];
    for (const more of [10, 5]) await spendSome(world, more, busy);
    await run();
    // The rest of the busy account's records too: it was read anyway.
    expect(await count()).toBe(3);
    world.setClock(nextMonth());
    await run();
    expect(await count()).toBe(4);
    for (const account of [busy, quiet]) expect(await seals.store.statement(account, world.month)).toBeUndefined();
    await world.billing.closeMonths();
    await run();
    for (const account of [busy, quiet])
      expect((await seals.store.statement(account, world.month))?.text).toContain(account);
  });

  it("is not due again where it has everything, also with a voided attempt", async () => {
    const world = await open();
    const account = await world.account(usd);
    for (const attempt of [1, 2])
      await settle(world, usageRecord(account, { input: 1, output: 1 }, { requestId: "request-1", attempt }));
    const due = async () => (await world.seals.store.due(world.month, 1_000, 0, "", 10)).accounts;
    expect(await due()).toEqual([account]);
    await world.exported(account);
    expect(await due()).toEqual([]);
  });

  it("finds the accounts of a month in pages of all accounts", async () => {
    const { seals, month, ...world } = await open();
    const accounts = [];
    for (let n = 0; n < 5; n++) accounts.push(await world.account(usd));
    accounts.sort();
    for (const account of [accounts[0], accounts[3]])
      await settle({ ...world }, usageRecord(account as AccountId, { input: 1, output: 1 }));
    const found = async (read: (after: string) => ReturnType<typeof seals.store.due>) => {
      const all: AccountId[] = [];
      for (let after: string | undefined = ""; after !== undefined; ) {
        const { accounts: some, last }: Awaited<ReturnType<typeof read>> = await read(after);
        all.push(...some);
        after = last;
      }
      return all;
    };
    const expected = [accounts[0], accounts[3]];
    expect(await found((after) => seals.store.withoutStatement(month, after, 2))).toEqual(expected);
    expect(await found((after) => seals.store.due(month, 1, 0, after, 2))).toEqual(expected);
    const due = (oldAfterMs: number) => found((after) => seals.store.due(month, 1_000, oldAfterMs, after, 2));
    expect(await due(40 * 24 * 3_600_000)).toEqual([]);
    expect(await due(0)).toEqual(expected);
    const { rows } = await world.pool.query(
      "select indisvalid as is from pg_index where indexrelid = 'ledger_entry_correction'::regclass",
    );
    expect(rows).toEqual([{ is: true }]);
  });

  it("is made for every other account when the page of one exceeds the statement limit", async () => {
    const world = await open();
    const accounts: AccountId[] = [];
    for (let n = 0; n < 4; n++) accounts.push(await spendSome(world, 3));
    accounts.sort();
    const slow = new Set(accounts);
    const tried: string[] = [];
    const store: typeof world.seals.store = {
      ...world.seals.store,
      append(account, ...rest) {
        tried.push(account);
        return slow.has(account)
          ? Promise.reject(new DatabaseUnavailable("overloaded", new Error("statement timeout")))
          : world.seals.store.append(account, ...rest);
      },
    };
    const seals = createUsageSeals({ store, keys: world.seals.keys, log, clock: world.clock });
    await closeMonth(world);
    // Where several accounts in a row fail, the database is the cause.
    await expect(seals.run(new AbortController().signal)).rejects.toBeInstanceOf(DatabaseUnavailable);
    expect(tried).toEqual(accounts.slice(0, 3));
    const stated = async () =>
      (await Promise.all(accounts.map((account) => store.statement(account, world.month)))).map(
        (statement) => statement !== undefined,
      );
    slow.delete(accounts[3] as AccountId);
    // It was the accounts: the next run begins behind them.
    await seals.run(new AbortController().signal);
    expect(await stated()).toEqual([false, false, false, true]);
    for (const account of accounts.slice(1)) slow.delete(account);
    await seals.run(new AbortController().signal);
    expect(await stated()).toEqual([false, true, true, true]);
  });

  it("recomputes exactly what was billed, of every unit, tier, discount, adapter, GPU minute and correction", {
    timeout: 600_000,
  }, async () => {
    const world = await open();
    const terms = await makePrices(world);
    await fc.assert(
      fc.asyncProperty(fc.array(anyUse, { minLength: 1, maxLength: 40 }), async (uses) => {
        const account = await world.account(1_000_000n * usd);
        const records = uses.flatMap((use) => recordsOf(account, use, terms));
        // In groups, so that attempts of a request arrive together or apart.
        for (let from = 0; from < records.length; from += 7) await settle(world, ...records.slice(from, from + 7));
        const verdict = await verdictOf(await world.exported(account));
        expect(verdict.problems).toEqual([]);
        expect(verdict.records).toBe(records.length);
        expect(verdict.total).toBe((await world.budget(account)).spent);
        const lines = await monthLines(world.db, account, world.month, world.month);
        expect(sumsOf(verdict.lines)).toEqual(
          sumsOf(lines.map((line) => ({ ...line, discount: line.discount?.id ?? "" }))),
        );
      }),
      { numRuns: longer(8, 150) },
    );
  });

  it("puts a late record and a correction into the month that bills them", async () => {
    const world = await open();
    const account = await world.account(100n * usd);
    const lastMonth = new Date(Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth(), 0, 23, 50));
    const terms = { ...priced(world), requestId: "request-1", admittedAtMs: lastMonth.getTime(), holdNanoUsd: "10000" };
    await settle(world, usageRecord(account, { input: 1_000_000, output: 0 }, terms));
    await world.postedAt(account, lastMonth);
    await settle(world, usageRecord(account, { input: 2_000_000, output: 0 }, { ...terms, attempt: 2 }));
    await settle(
      world,
      usageRecord(account, { input: 3_000_000, output: 0 }, { ...priced(world), admittedAtMs: lastMonth.getTime() }),
    );
    const before = await verdictOf(await world.exported(account, world.month - 1));
    expect(before).toMatchObject({ problems: [], records: 1, corrections: 0, total: 1_500n });
    const after = await verdictOf(await world.exported(account));
    expect(after).toMatchObject({ problems: [], records: 2, corrections: 1, total: 3_000n - 1_500n + 4_500n });
  });

  it("has at most as many corrections in a segment as records", async () => {
    const world = await open();
    const account = await world.account(usd);
    for (const attempt of [1, 2])
      for (let request = 1; request <= 12; request++) {
        const terms = { ...priced(world), requestId: `request-${request}`, attempt };
        await settle(world, usageRecord(account, { input: 1_000_000, output: attempt }, terms));
      }
    const seals = world.makeSeals(4);
    let text = "";
    for await (const piece of await seals.export(account, world.month)) text += piece;
    const verdict = await verdictOf(text);
    expect(verdict).toMatchObject({ problems: [], records: 24, corrections: 12 });
    expect(verdict.total).toBe((await world.budget(account)).spent);
    const { rows } = await world.pool.query(
      "select max(records) as records, max(corrections) as corrections from usage_segment",
    );
    expect(rows).toEqual([{ records: 4, corrections: 4 }]);
  });

  it("waits for a record that becomes visible after later ones", async () => {
    const world = await open();
    const account = await spendSome(world, 3);
    const client = await world.pool.connect();
    try {
      await client.query("begin");
      const { rows } = await client.query(
        `insert into usage select (json_populate_record(u, json_build_object('request_id', 'slow', 'settled_at', now(), 'charge', 0))).*
         from (select u from usage u where account_id = $1 limit 1) one returning 1`,
        [account],
      );
      expect(rows).toHaveLength(1);
      await spendSome(world, 5, account);
      expect((await verdictOf(await world.exported(account))).records).toBe(3);
      await client.query("commit");
    } finally {
      client.release();
    }
    const verdict = await verdictOf(await world.exported(account));
    expect(verdict).toMatchObject({ problems: [], records: 9 });
  });

  it("is one chain with every record once while control planes seal at the same time and one is killed again and again", {
    timeout: 300_000,
  }, async () => {
    const world = await open();
    const account = await world.account(1_000n * usd);
    const here = world.makeSeals(20, 1_000);
    let settled = 0;
    for (let kill = 0; kill < longer(2, 30); kill++) {
      const other = fork(join(import.meta.dirname, "sealing-process.ts"), [world.url, account, String(world.month)], {
        env: { ...process.env, SECRET: world.secrets.keks[0]?.bytes.toString("hex") },
      });
      onTestFinished(() => void other.kill("SIGKILL"));
      await once(other, "message");
      const exited = once(other, "exit");
      for (let round = 0; round <= kill % 3; round++) {
        await spendSome(world, 60, account);
        settled += 60;
        await here
          .export(account, world.month)
          .then((unread) => unread.return(undefined))
          .catch((error) => expect(error).toMatchObject({ code: "usage_not_sealed" }));
      }
      other.kill("SIGKILL");
      await exited;
    }
    const last = world.makeSeals(20);
    await vi.waitFor(async () => {
      let text = "";
      for await (const piece of await last.export(account, world.month)) text += piece;
      const verdict = await verdictOf(text, await publicKeys(world));
      expect(verdict).toMatchObject({ problems: [], records: settled, isKeyTrusted: true });
      expect(verdict.total).toBe((await world.budget(account)).spent);
    }, patience);
  });
});

it("migrates a large ledger without an index of its large months, and later months have one", {
  timeout: 120_000,
}, async () => {
  const world = await open();
  await world.pool.query("drop table invoice_statement, usage_segment, usage_digests, invoice_key");
  await world.pool.query("drop index ledger_entry_correction");
  for (let batch = 0; batch < 12; batch++)
    await world.pool.query(
      `insert into ledger_entry (transaction_id, book, account_id, amount, kind, note, posted_at)
       select n::text, 'customer_spent', 'u:1', 0, 'capture', repeat(md5(n::text), 20), '1999-01-01' from generate_series(1, 5000) n`,
    );
  await up(world.db as unknown as Parameters<typeof up>[0]);
  await world.pool.query(
    "create table ledger_later partition of ledger_entry for values from ('2090-01-01') to ('2090-02-01')",
  );
  const { rows } = await world.pool.query(`
    select p.inhrelid::regclass::text as part, exists (select from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid
      where i.inhparent = 'ledger_entry_correction'::regclass and x.indrelid = p.inhrelid) as is_indexed
    from pg_inherits p where p.inhparent = 'ledger_entry'::regclass`);
  const partsOf = (isIndexed: boolean) => rows.filter((row) => row.is_indexed === isIndexed).map((row) => row.part);
  expect(partsOf(false)).toEqual(["ledger_entry_other"]);
  expect(partsOf(true)).toContain("ledger_later");
  const account = await spendSome(world, 3);
  expect(await verdictOf(await world.exported(account))).toMatchObject({ problems: [], records: 3 });
});

describe("an operator who changes the books", () => {
  async function sealed(count = 30) {
    const world = await open();
    const account = await spendSome(world, count);
    await world.exported(account);
    const { rows } = await world.pool.query(
      "select request_id from usage where account_id = $1 order by random() limit 1",
      [account],
    );
    const request = rows[0].request_id as string;
    const problems = async () => (await verdictOf(await world.exported(account))).problems;
    return { ...world, owner: account, request, problems };
  }

  it.each([
    "input_tokens = input_tokens + 1",
    "cost = cost + 1",
    "charge = charge + 1",
    "price_version = price_version + 1",
    "model = 'other'",
  ])("is found: set %s", async (change) => {
    const { pool, request, problems } = await sealed();
    expect(await problems()).toEqual([]);
    await pool.query(`update usage set ${change} where request_id = $1`, [request]);
    const [first] = await problems();
    expect(first).toContain(`Request ${request} attempt 1`);
    expect(first).toContain("does not match its digest: it was altered");
  });

  it("is found when a record is deleted, added or moved to another time", async () => {
    const { pool, owner, request, problems } = await sealed();
    await pool.query(
      `insert into usage select (json_populate_record(u, json_build_object('request_id', 'invented'))).*
       from (select u from usage u where request_id = $1) one`,
      [request],
    );
    expect((await problems())[0]).toContain("Request invented attempt 1");
    await pool.query("delete from usage where request_id = 'invented'");
    expect(await problems()).toEqual([]);
    await pool.query("delete from usage where request_id = $1", [request]);
    expect((await problems())[0]).toMatch(/^Record \d+ \(segment 1\) is missing\.$/);
    await pool.query("update usage set settled_at = settled_at - interval '1 microsecond' where account_id = $1", [
      owner,
    ]);
    expect((await problems())[0]).toContain("does not match its digest");
  });

  it("is found when the seals are changed too, and cannot change them with ordinary rights", async () => {
    const { pool, request, problems, owner } = await sealed();
    await expect(pool.query("update usage_segment set charged = 0")).rejects.toThrow("append only");
    await expect(pool.query("delete from usage_segment")).rejects.toThrow("append only");
    const client = await pool.connect();
    try {
      await client.query("set session_replication_role = replica");
      await client.query("update usage set charge = charge - 1 where request_id = $1", [request]);
      await client.query("update usage_segment set charged = charged - 1 where account_id = $1", [owner]);
    } finally {
      await client.query("set session_replication_role = default");
      client.release();
    }
    expect((await problems())[0]).toContain("Segment 1 (30 records from 1 on) does not match its hash");
  });

  it("gets no statement for a month that does not add up", async () => {
    const world = await sealed();
    const client = await world.pool.connect();
    try {
      await client.query("set session_replication_role = replica");
      await client.query("update usage_day set cost = cost + 1 where account_id = $1", [world.owner]);
      await client.query(
        "update ledger_entry set amount = amount + 1 where entry_id = (select min(entry_id) from ledger_entry where account_id = $1 and book = 'customer_spent')",
        [world.owner],
      );
    } finally {
      await client.query("set session_replication_role = default");
      client.release();
    }
    await closeMonth(world);
    const verdict = await verdictOf(await world.exported(world.owner), await publicKeys(world));
    expect(verdict).toMatchObject({ isClosed: true, isKeyTrusted: true });
    expect(verdict.invoice).toBeDefined();
    expect(verdict.problems).toEqual([expect.stringContaining("The server closed the month with an invoice over")]);
    const alerts: unknown[] = [];
    const { store, keys } = world.seals;
    const once = Object.assign(Object.create(log) as typeof log, {
      error: (facts: unknown) => void alerts.push(facts),
    });
    const seals = createUsageSeals({ store, keys, log: once, clock: world.clock });
    for (let n = 0; n < 3; n++) await (await seals.export(world.owner, world.month)).return(undefined);
    expect(alerts).toEqual([expect.objectContaining({ alert: "usage_seal_differs", account: world.owner })]);
    expect(await world.seals.store.statement(world.owner, world.month)).toBeUndefined();
  });
});

describe("the key", () => {
  it("signs its successor, so that an export verifies with the first key after a rotation", async () => {
    const world = await open();
    const account = await spendSome(world, 10);
    await world.exported(account);
    const [first = ""] = await publicKeys(world);
    await world.seals.keys.rotate(by);
    await spendSome(world, 10, account);
    const text = await world.exported(account);
    const [, second = ""] = await publicKeys(world);
    for (const keys of [[first], [second], [first, second]])
      expect(await verdictOf(text, keys)).toMatchObject({ problems: [], segments: 2, key: second, isKeyTrusted: true });
    const swapped = text.replace(second, first);
    expect((await verdictOf(swapped)).problems[0]).toContain("Key 2 is not signed by key 1");
    const audited = await world.db
      .selectFrom("audit")
      .select("action")
      .where("action", "=", "invoice_key.rotate")
      .execute();
    expect(audited).toHaveLength(1);
  });

  it("is one when control planes start at the same time", async () => {
    const world = await open();
    await Promise.all([1, 2, 3, 4].map(() => world.makeSeals().keys.newest()));
    expect(await publicKeys(world)).toHaveLength(1);
    const rotated = await Promise.allSettled([1, 2].map(() => world.makeSeals().keys.rotate(by)));
    expect(rotated.filter(({ status }) => status === "fulfilled").length).toBeGreaterThan(0);
    expect(await publicKeys(world)).toHaveLength(1 + rotated.filter(({ status }) => status === "fulfilled").length);
  });
});

describe("an export", () => {
  it("ends where the chain ended when it began, also when keys and segments are added before it ends", async () => {
    const world = await open();
    const account = await spendSome(world, 1_100);
    const lines = await world.makeSeals().export(account, world.month);
    let text = (await lines.next()).value as string;
    await world.seals.keys.rotate(by);
    await spendSome(world, 10, account);
    const later = await world.exported(account);
    for await (const line of lines) text += line;
    expect(await verdictOf(later, await publicKeys(world))).toMatchObject({
      problems: [],
      records: 1_110,
      segments: 3,
    });
    expect(await verdictOf(text, await publicKeys(world))).toMatchObject({ problems: [], records: 1_100, segments: 2 });
  });

  it("makes no further segment of the current month for some minutes, and says up to when it has records", async () => {
    const world = await open();
    const account = await spendSome(world, 5);
    const seals = world.makeSeals(10, 0, 60_000);
    const verdict = async () => {
      let text = "";
      for await (const piece of await seals.export(account, world.month)) text += piece;
      return verdictOf(text);
    };
    const before = await verdict();
    expect(before).toMatchObject({ problems: [], records: 5, segments: 1 });
    await spendSome(world, 20, account);
    expect(await verdict()).toMatchObject({ problems: [], records: 5, segments: 1, throughMs: before.throughMs });
    await world.makeSeals(10).run(new AbortController().signal);
    // A full segment is not one that ends where everything is sealed.
    const after = await verdict();
    expect(after).toMatchObject({ problems: [], records: 25 });
    expect(after.throughMs).toBeGreaterThan(before.throughMs ?? 0);
  });

  it("runs once for an account at a time, until it is read or its client disconnects", async () => {
    const world = await open();
    const [first, second] = [await spendSome(world, 3), await spendSome(world, 3)];
    const gone = new AbortController();
    await world.seals.export(first, world.month, gone.signal);
    await expect(world.exported(first)).rejects.toMatchObject({ code: "export_running" });
    await world.exported(second);
    await world.exported(second);
    gone.abort();
    await world.exported(first);
    const unread = await world.seals.export(first, world.month);
    await unread.return(undefined);
    await world.exported(first);
    const others = [];
    for (let n = 0; n < 4; n++) others.push(await world.seals.export(await world.account(usd), world.month));
    await expect(world.exported(first)).rejects.toMatchObject({ code: "export_running" });
    await others[0]?.return(undefined);
    await world.exported(first);
  });

  it("is signed with its prices, which a later version does not change after the month was closed", async () => {
    const world = await open();
    const account = await spendSome(world, 5);
    await closeMonth(world);
    const before = await verdictOf(await world.exported(account));
    expect(before).toMatchObject({
      problems: [],
      isClosed: true,
      prices: [{ subject: "acme/model", untilUs: Infinity }],
    });
    await world.db
      .insertInto("price")
      .values({ kind: "model", subject: "acme/model", inputRate: 1n, cachedInputRate: 1n, outputRate: 1n })
      .execute();
    const after = await verdictOf(await world.exported(account));
    expect(after).toMatchObject({ problems: [], isClosed: true });
    expect(after.prices[0]?.untilUs).toBeLessThan(Infinity);
  });
});

describe("retention", () => {
  it("leaves segments that verify without the records, and says how many are gone", async () => {
    const world = await open();
    const account = await spendSome(world, 10);
    await world.exported(account);
    await closeMonth(world);
    await world.pool.query(
      "delete from usage where account_id = $1 and ctid in (select ctid from usage where account_id = $1 limit 4)",
      [account],
    );
    await world.pool.query("insert into usage_retention (expired_before) values (now())");
    const verdict = await verdictOf(await world.exported(account));
    expect(verdict).toMatchObject({ problems: [], expired: 4, records: 10, isClosed: true });
    expect(verdict.notes[0]).toContain("Records removed by the server's retention");
  });

  it("refuses a month of which it removed records before they were sealed", async () => {
    const world = await open();
    const account = await spendSome(world, 3);
    await closeMonth(world);
    await world.pool.query("delete from usage where account_id = $1", [account]);
    await world.pool.query("insert into usage_retention (expired_before) values (now())");
    await expect(world.exported(account)).rejects.toMatchObject({ code: "usage_expired" });
    const other = await world.account(usd);
    expect(await verdictOf(await world.exported(other))).toMatchObject({ problems: [], records: 0 });
  });

  it("leaves corrections as they were sealed, without the records that they correct", async () => {
    const world = await open();
    const account = await spendSome(world, 3);
    const terms = { ...priced(world), requestId: "request-1", holdNanoUsd: "10000" };
    for (const attempt of [1, 2])
      await settle(world, usageRecord(account, { input: 1_000_000, output: 0 }, { ...terms, attempt }));
    expect(await verdictOf(await world.exported(account))).toMatchObject({ problems: [], records: 5, corrections: 1 });
    await closeMonth(world);
    await world.pool.query("delete from usage where request_id = 'request-1' and attempt = 1");
    await world.pool.query("insert into usage_retention (expired_before) values (now())");
    expect(await verdictOf(await world.exported(account))).toMatchObject({
      ...{ problems: [], expired: 1, records: 5, corrections: 1, isClosed: true },
    });
  });

  it("does not excuse a record that is missing from a segment which it has not reached", async () => {
    const world = await open();
    const account = await spendSome(world, 3);
    await world.exported(account);
    await world.pool.query("insert into usage_retention (expired_before) values ('2020-01-01')");
    await world.pool.query(
      "delete from usage where account_id = $1 and ctid in (select ctid from usage where account_id = $1 limit 1)",
      [account],
    );
    const verdict = await verdictOf(await world.exported(account));
    expect(verdict.expired).toBe(0);
    expect(verdict.problems[0]).toMatch(/^Record \d \(segment 1\) is missing\.$/);
  });
});

/** Prices of every kind, with the discounts of an operator. */
async function makePrices(world: SealsWorld) {
  const add = async (values: object) => {
    const row = await world.db
      .insertInto("price")
      .values(values as never)
      .returning("priceVersion")
      .executeTakeFirstOrThrow();
    return row.priceVersion;
  };
  const tokens = { inputRate: 1_234_567n, cachedInputRate: 98_765n, outputRate: 7_654_321n };
  const units = { characterRate: 15_000_003n, audioRate: 100_007n, imageRate: 40_000_000_000_003n, imageSteps: 20 };
  await world.db
    .insertInto("discount")
    .values({
      discountId: "d1",
      name: "d1",
      text: "",
      basisPoints: 1_234,
      accountId: null,
      model: null,
      surface: null,
      effectiveFrom: new Date(0),
      effectiveTo: null,
    })
    .execute();
  return {
    text: await add({ kind: "model", subject: "acme/text", ...tokens, priorityPercent: 175, flexPercent: 60 }),
    task: await add({ kind: "model", subject: "acme/task", ...tokens, ...units }),
    gpu: await add({ kind: "gpu", subject: "H100", hourRate: 2_345_678_901n }),
    rates: { input: tokens.inputRate, cachedInput: tokens.cachedInputRate, output: tokens.outputRate },
    units: {
      characters: units.characterRate,
      audio: units.audioRate,
      images: units.imageRate,
      imageUnit: 20n * BigInt(pricedPixels),
    },
  };
}
type Prices = Awaited<ReturnType<typeof makePrices>>;

const anyUse = fc.record({
  kind: fc.constantFrom("text", "adapter", "task"),
  input: fc.nat({ max: 5_000_000 }),
  cached: fc.nat({ max: 5_000_000 }),
  output: fc.nat({ max: 500_000 }),
  units: fc.record({
    characters: fc.nat({ max: 5_000 }),
    audioMs: fc.nat({ max: 900_000 }),
    images: fc.nat({ max: 4 }),
    imagePixelSteps: fc.nat({ max: 200_000_000 }),
  }),
  tier: fc.constantFrom("default", "priority", "flex", "batch"),
  discounted: fc.boolean(),
  endUser: fc.option(fc.constantFrom("ada", "bob")),
  /** Per cent of its cost that is held. */
  hold: fc.constantFrom(100, 100, 60),
  attempts: fc.integer({ min: 1, max: 3 }),
  name: fc.constantFrom("plain", "with, comma", 'with "quotes"', "back\\slash", "(brackets)", "ünï"),
} as const);
type Use = typeof anyUse extends fc.Arbitrary<infer T> ? T : never;

/** The rates of a ticket, by the functions that admit a request. */
function recordsOf(account: AccountId, use: Use, prices: Prices): SpooledRecord[] {
  const isTask = use.kind === "task";
  const priced: TokenRates = isTask ? { ...prices.rates, units: prices.units } : prices.rates;
  const base = use.kind === "adapter" ? surchargedRates(priced, adapterPercent) : priced;
  const tierPercents = isTask ? undefined : { priority: 175, flex: 60 };
  const tier = use.tier as ServiceTier;
  const own = use.discounted ? { id: "d1", basisPoints: 1_234 } : undefined;
  const spine = spineOfLines<Parameters<typeof spineOfLines>[0]>({
    rates: undefined as never,
    discounts: { find: () => own as never },
  });
  const discount = tier === "batch" ? spine.discounts.find({ account, model: "", surface: "" }, 0) : own;
  const before = ratesAt(tier, { rates: base, tierPercents } as Parameters<typeof ratesAt>[1]);
  const rates = discount ? discountedRates(before, discount.basisPoints) : before;
  const counts = { input: use.input, cachedInput: Math.min(use.cached, use.input), output: use.output };
  const units = { ...use.units, items: 0 };
  const cost = costOf({ ...counts, ...(isTask ? { units } : {}) }, rates);
  const requestId = randomId(24);
  return Array.from({ length: use.attempts }, (_, i) =>
    usageRecord(account, { input: use.input, output: use.output }, {
      requestId,
      attempt: i + 1,
      keyId: `key, ${use.name}`,
      model: use.kind === "adapter" ? `acme/adapter ${use.name}` : `acme/${use.kind}`,
      priceVersion: String(isTask ? prices.task : prices.text),
      inputRate: String(rates.input),
      cachedInputRate: String(rates.cachedInput),
      outputRate: String(rates.output),
      cachedInputTokens: String(counts.cachedInput),
      holdNanoUsd: String((cost * BigInt(use.hold)) / 100n),
      ...(tier === "default" ? {} : { tier }),
      ...((discount?.id ?? billedTier(tier)) ? { discountId: discount?.id ?? billedTier(tier) } : {}),
      ...(use.endUser ? { endUser: use.endUser } : {}),
      ...(isTask
        ? {
            ...use.units,
            characterRate: String(rates.units?.characters),
            audioRate: String(rates.units?.audio),
            imageRate: String(rates.units?.images),
            imageUnit: String(rates.units?.imageUnit),
          }
        : {}),
    } as RecordTerms),
  );
}

interface LineSum {
  readonly key: string;
  readonly model: string;
  readonly priceVersion: bigint | null;
  readonly discount: string;
  readonly cost: bigint;
}

const sumsOf = (lines: readonly LineSum[]) =>
  lines
    .filter(({ cost }) => cost !== 0n)
    .map(({ key, model, priceVersion, discount, cost }) =>
      [key, model, String(priceVersion), discount, String(cost)].join("|"),
    )
    .sort();
