// Retention of usage on a real database: months are detached and dropped beside settlements, and the books agree without them.
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { claimedTicket } from "../../../control-plane/billing/claimed-ticket.ts";
import { readRecord } from "../../../control-plane/billing/record.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { createRetentionStore } from "../../../control-plane/store/core/retention-store.ts";
import { ensureMoneyMonths } from "../../../control-plane/store/money/money-months.ts";
import type { AccountId } from "../../../proto/ids.ts";
import type { SpooledRecord } from "../../../proto/usage-record.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld, usageRecord, type World } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const monthsAgo = (months: number, dayOfMonth = 15) => {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, dayOfMonth));
};
const partition = (months: number) => `usage_${monthsAgo(months).toISOString().slice(0, 7).replace("-", "_")}`;
const balanced = {
  imbalance: 0n,
  unbalancedTransactions: [],
  wrongSpent: [],
  wrongLeased: [],
  aboveLimit: [],
  wrongDays: [],
  wrongTokens: [],
  wrongEndUserMonths: [],
  doubleCaptures: [],
};

describe("retention of usage", () => {
  let world: World;
  let account: AccountId;

  /** Ten records in each of these months, settled in them. */
  const openOld = (...months: readonly number[]) => open(months, true);
  async function open(months: readonly number[], havePartitions: boolean): Promise<readonly SpooledRecord[]> {
    const sent: SpooledRecord[] = [];
    world = await openWorld(postgres);
    account = await world.account(10n ** 12n);
    if (havePartitions) for (const ago of months) await ensureMoneyMonths(world.db, monthsAgo(ago));
    await query("set session_replication_role = replica");
    for (const ago of months) {
      const terms = { admittedAtMs: monthsAgo(ago).getTime(), endUser: "ada" };
      const records = Array.from({ length: 10 }, () => usageRecord(account, { input: 100, output: 10 }, terms));
      expect(await world.settlement.settle(records, "1")).toHaveLength(10);
      sent.push(...records);
    }
    await query("update ledger_entry l set posted_at = u.admitted_at from usage u where u.request_id = l.request_id");
    await query("update usage set settled_at = admitted_at, ended_at = admitted_at");
    await query("set session_replication_role = origin");
    await query("select rebuild_usage_days()");
    expect(await checkBooks(world.db)).toEqual(balanced);
    return sent;
  }
  async function query(text: string, values: unknown[] = []) {
    return (await world.pool.query(text, values)).rows;
  }
  const expire = () => createRetentionStore(world.db).deleteBefore("usage", monthsAgo(13, 20), 1_000);
  const months = async () =>
    (await query("select tableoid::regclass::text as name, count(*)::int as n from usage group by 1 order by 1")).map(
      ({ name, n }) => [name, n],
    );
  const sums = () =>
    query("select account_id, month, day, records, cost::text, tokens::text from usage_day order by 1, 2, 3");

  it("drops whole months, oldest first, and keeps sums, ledger and books", async () => {
    await openOld(15, 14, 13, 12);
    const before = await sums();
    await expire();
    expect(await months()).toEqual([
      [partition(14), 10],
      [partition(13), 10],
      [partition(12), 10],
    ]);
    await expire();
    await expire();
    // Month 13 ends after the 20th of it.
    expect(await months()).toEqual([
      [partition(13), 10],
      [partition(12), 10],
    ]);
    expect(await query("select to_regclass($1) as name", [partition(15)])).toEqual([{ name: null }]);
    expect(await sums()).toEqual(before);
    expect(await checkBooks(world.db)).toEqual(balanced);
    await expect(query("select rebuild_usage_days()")).rejects.toThrow("have expired");
  });

  it("goes on beside settlements, and settlements beside it", async () => {
    await openOld(15, 14);
    const settled = Array.from({ length: 20 }, async () =>
      world.settlement.settle([usageRecord(account, { input: 1, output: 1 })], "1"),
    );
    await expire();
    await expire();
    for (const one of await Promise.all(settled)) expect(one).toHaveLength(1);
    expect((await months()).map(([, n]) => n)).toEqual([20]);
    expect(await checkBooks(world.db)).toEqual(balanced);
  });

  it("lets settlements through while a long report keeps it from detaching, and detaches afterwards", async () => {
    await openOld(15);
    const report = new pg.Client(world.url);
    await report.connect();
    onTestFinished(() => report.end());
    await report.query("begin");
    await report.query("select count(*) from usage");
    const expired = expire();
    for (let n = 0; n < 5; n++)
      expect(await world.settlement.settle([usageRecord(account, { input: 1, output: 1 })], "1")).toHaveLength(1);
    expect((await months()).map(([name]) => name)).toContain(partition(15));
    await report.query("commit");
    await expired;
    await vi.waitFor(async () => expect((await months()).map(([name]) => name)).not.toContain(partition(15)));
  });

  it("drops a month that it had detached before a kill, and no other table", async () => {
    await openOld(15, 12);
    await query(`alter table usage detach partition ${partition(15)}`);
    await query(`alter table usage detach partition ${partition(12)}`);
    await query("insert into usage_retention values ($1)", [monthsAgo(14, 1)]);
    await expire();
    const names = await query("select to_regclass($1)::text as old, to_regclass($2)::text as young", [
      partition(15),
      partition(12),
    ]);
    expect(names).toEqual([{ old: null, young: partition(12) }]);
  });

  it("removes expired records that are in no month's partition", async () => {
    await open([20], false);
    const before = await sums();
    expect(await expire()).toBe(10);
    expect(await months()).toEqual([]);
    expect(await sums()).toEqual(before);
    expect(await checkBooks(world.db)).toEqual(balanced);
    await expect(query("select rebuild_usage_days()")).rejects.toThrow("have expired");
  });

  it("keeps records that were settled late, because the books of that day need them", async () => {
    await open([20], false);
    await query("update usage set settled_at = now() where request_id = (select max(request_id) from usage)");
    await query("select rebuild_usage_days()");
    expect(await expire()).toBe(9);
    expect(await months()).toEqual([["usage_other", 1]]);
  });

  it("keeps records that are in no month's partition while an earlier version's sums of theirs are not divided", async () => {
    await open([20], false);
    const at = monthsAgo(20);
    await query("insert into usage_undivided (account_id, month) values ($1, $2)", [
      account,
      at.getUTCFullYear() * 12 + at.getUTCMonth(),
    ]);
    expect(await expire()).toBe(0);
    expect(await months()).toEqual([["usage_other", 10]]);
  });

  it("quarantines a record that a host sends again after it has expired, and never bills it", async () => {
    const kept = await openOld(15, 12);
    await expire();
    const before = await sums();
    const [old, young] = [kept[0], kept[10]] as [SpooledRecord, SpooledRecord];
    const fresh = usageRecord(account, { input: 1, output: 1 });
    const sent = [old, young, fresh];
    expect((await world.settlement.settle(sent, "1")).toSorted()).toEqual(sent.map((one) => one.spoolId).toSorted());
    const rows = await query("select request_id, problem from usage_quarantine");
    expect(rows).toEqual([{ request_id: old.requestId, problem: "expired" }]);
    expect(await months()).toEqual([
      [partition(12), 10],
      [partition(0), 1],
    ]);
    expect(await sums()).toHaveLength(before.length + 1);
    await expect(world.settlement.release(old)).rejects.toThrow("have expired");
    expect(await checkBooks(world.db)).toEqual(balanced);
  });

  it("refuses in the database a record that expired after a control plane had checked it", async () => {
    const [old] = (await openOld(15)) as [SpooledRecord];
    await expire();
    const record = readRecord(old, claimedTicket(old));
    const settled = world.settlementStore.settle({ records: [record], counts: [] });
    await expect(settled).rejects.toMatchObject({ code: "22008" });
    expect(await months()).toEqual([]);
    expect(await checkBooks(world.db)).toEqual(balanced);
  });

  it("keeps months whose sums an earlier version stored and no job has divided yet", async () => {
    await openOld(15);
    const at = monthsAgo(15);
    await query("insert into usage_undivided (account_id, month) values ($1, $2)", [
      account,
      at.getUTCFullYear() * 12 + at.getUTCMonth(),
    ]);
    await expire();
    expect(await months()).toEqual([[partition(15), 10]]);
  });
});
