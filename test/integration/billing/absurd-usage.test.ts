// Usage that no engine can have made, as records of an earlier version may have left it: it stays the matter of its account.
import { pino } from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createMonthClosing } from "../../../control-plane/billing/months.ts";
import { monthOf } from "../../../control-plane/billing/period.ts";
import { createUsageDays } from "../../../control-plane/billing/usage-days.ts";
import { createUsageQueries } from "../../../control-plane/billing/usage-queries.ts";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";
import { createUsageDayStore } from "../../../control-plane/store/money/usage-day-store.ts";
import { ledgerLines } from "../../../control-plane/store/money/usage-lines.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { handClock, log, openWorld, usageRecord, type World } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const nextMonth = () => Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth() + 1, 2);

/** One account with an absurd record, one with an ordinary one. */
async function accounts(world: World): Promise<readonly [absurd: AccountId, ordinary: AccountId]> {
  const both = [await world.account(usd), await world.account(usd)] as const;
  await world.settlement.settle(
    both.map((account) => usageRecord(account, { input: 5, output: 5 })),
    "1",
  );
  await world.pool.query(
    "update usage set input_tokens = 9007199254740991, output_tokens = 9007199254740991 where account_id = $1",
    [both[0]],
  );
  await world.pool.query("select rebuild_usage_days()");
  return both;
}

const invoicesOf = async (world: World) =>
  (await world.pool.query("select account_id from invoice order by account_id")).rows.map((row) => row.account_id);

it("shows the usage pages of the account, with the largest number that a page can show", async () => {
  const world = await openWorld(postgres);
  const [absurd] = await accounts(world);
  const { months } = await createUsageQueries({ store: world.usageStore }).usage(
    { account: absurd },
    "current",
    "current",
  );
  expect(months[0]?.items).toMatchObject([{ cost: 10_000n }]);
  const lines = await ledgerLines(world.db, absurd, Date.now() - 3_600_000, Date.now() + 3_600_000);
  expect(lines).toMatchObject([{ milliUnits: 2n ** 63n - 1n, cost: 10_000n }]);
  const days = createUsageDays({ store: createUsageDayStore(world.db) });
  const today = new Date().toISOString().slice(0, 10);
  await days.read(absurd, "model", today, today);
});

it("closes the month of every account", async () => {
  const world = await openWorld(postgres);
  const both = await accounts(world);
  const clock = handClock();
  const months = createMonthClosing({ store: world.invoiceStore, log, clock: { ...clock, unixMs: nextMonth } });
  expect(await months.closeMonths()).toBe(2);
  expect(await invoicesOf(world)).toEqual([...both].sort());
});

it("makes no invoice of sums that differ from the ledger, and makes it once they are equal", async () => {
  const world = await openWorld(postgres);
  const [wrong, good] = await accounts(world);
  await world.pool.query("update usage_day set cost = cost + 1 where account_id = $1", [wrong]);
  const lines: string[] = [];
  const readable = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const clock = { ...handClock(), unixMs: nextMonth };
  const months = createMonthClosing({ store: world.invoiceStore, log: readable, clock });
  expect(await months.closeMonths()).toBe(1);
  expect(await invoicesOf(world)).toEqual([good]);
  expect(lines.filter((line) => line.includes('"alert":"invoice_failed"') && line.includes(wrong))).toHaveLength(1);
  expect(await world.invoiceStore.nextOpenMonth()).toBe(monthOf(Date.now()));
  await world.pool.query("select rebuild_usage_days()");
  expect(await months.closeMonths()).toBe(1);
  expect(await invoicesOf(world)).toEqual([wrong, good].sort());
  expect(await world.invoiceStore.nextOpenMonth()).toBe(monthOf(Date.now()) + 1);
});

it("makes the other accounts' invoices of every month while one account's fails, and that one once it can be made", async () => {
  const world = await openWorld(postgres);
  const [bad, good] = await accounts(world);
  let isBroken = true;
  const store: typeof world.invoiceStore = {
    ...world.invoiceStore,
    close: async (account, ...rest) => {
      if (isBroken && account === bad) throw new RangeError("bigint out of range");
      return world.invoiceStore.close(account, ...rest);
    },
  };
  const judged: AccountId[] = [];
  const onClosed = async (account: AccountId) => {
    judged.push(account);
    throw new Error("cannot be judged");
  };
  const clock = { ...handClock(), unixMs: nextMonth };
  const lines: string[] = [];
  const readable = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const closedLines = () => lines.filter((line) => line.includes("month closed")).length;
  const months = createMonthClosing({ store, log: readable, clock, onClosed });
  expect(await months.closeMonths()).toBe(1);
  expect(closedLines()).toBe(0);
  expect(await invoicesOf(world)).toEqual([good]);
  expect(judged).toEqual([good]);
  // The month stays open: nothing takes it for whole.
  expect(await world.invoiceStore.nextOpenMonth()).toBe(monthOf(Date.now()));
  isBroken = false;
  expect(await months.closeMonths()).toBe(1);
  expect(closedLines()).toBe(1);
  expect(await invoicesOf(world)).toEqual([bad, good].sort());
  expect(await world.invoiceStore.nextOpenMonth()).toBe(monthOf(Date.now()) + 1);
});

it("makes the other accounts' invoices while one account's takes longer than a statement may", async () => {
  const world = await openWorld(postgres);
  const [slow, good] = await accounts(world);
  const store: typeof world.invoiceStore = {
    ...world.invoiceStore,
    close: async (account, ...rest) => {
      if (account === slow) throw new DatabaseUnavailable("overloaded");
      return world.invoiceStore.close(account, ...rest);
    },
  };
  const lines: string[] = [];
  const readable = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const months = createMonthClosing({ store, log: readable, clock: { ...handClock(), unixMs: nextMonth } });
  expect(await months.closeMonths()).toBe(1);
  expect(await invoicesOf(world)).toEqual([good]);
  expect(lines.filter((line) => line.includes('"alert":"invoice_failed"') && line.includes(slow))).toHaveLength(1);
  expect(await world.invoiceStore.nextOpenMonth()).toBe(monthOf(Date.now()));
});

it("stops at the third account in a row while the database is down, and reports no account for it", async () => {
  const world = await openWorld(postgres);
  const everyone = [...(await accounts(world)), ...(await accounts(world))];
  const asked = new Set<AccountId>();
  const store: typeof world.invoiceStore = {
    ...world.invoiceStore,
    close: async (account) => {
      asked.add(account);
      throw new DatabaseUnavailable("unreachable");
    },
  };
  const lines: string[] = [];
  const readable = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const months = createMonthClosing({ store, log: readable, clock: { ...handClock(), unixMs: nextMonth } });
  await expect(months.closeMonths()).rejects.toThrow(DatabaseUnavailable);
  expect([asked.size, everyone.length]).toEqual([3, 4]);
  expect(lines).toEqual([]);
});
