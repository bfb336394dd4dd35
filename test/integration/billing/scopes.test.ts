import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import {
  type Hold,
  type HoldRequest,
  InsufficientFunds,
  SpendingSuspended,
} from "../../../control-plane/billing/hold.ts";
import type { RunningBudgets } from "../../../control-plane/billing/leases.ts";
import { accountMonthBudget, keyMonthBudget, monthScopes } from "../../../control-plane/billing/scopes.ts";
import { suspendIn } from "../../../control-plane/store/accounts/suspension-rows.ts";
import { announce, createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { inTransaction } from "../../../control-plane/store/core/database.ts";
import { createBudgetMaker } from "../../../control-plane/store/money/budget-rows.ts";
import { setMonthlyLimit } from "../../../control-plane/store/money/limit-store.ts";
import type { AccountId, BudgetId, KeyId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ask, handClock, log, openWorld, patience, tokenPrice, usageRecord, type World, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const tokens = (n: bigint | number) => BigInt(n) * tokenPrice;
const tokenBudget = (text: string) => `jwt/${createHash("sha256").update(text).digest("base64url")}` as BudgetId;

/** A request of a token signed by the account's key, with limits wherever there can be one. */
function limited(account: AccountId, key: KeyId, budget: BudgetId, limit: bigint, full: bigint, floor = full) {
  const spending = { hasAccountLimit: true, hasKeyLimit: true, token: { budget, limit } };
  return { ...ask(account, full, floor), key, spending };
}

const by = { by: "u:op", ip: "", note: "" };

async function limit(world: World, account: AccountId, key: KeyId | undefined, amount: bigint | null) {
  const month = key === undefined ? accountMonthBudget(account, Date.now()) : keyMonthBudget(key, Date.now());
  await inTransaction(world.db, async (trx) => {
    expect(await setMonthlyLimit(trx, { account, ...(key ? { key } : {}) }, amount, month, by)).toBe(true);
    await announce(trx, "limit", account);
  });
  return month;
}

const record = (request: HoldRequest, hold: Hold, output: number) =>
  usageRecord(
    request.account,
    { input: 0, output },
    {
      requestId: request.requestId,
      admittedAtMs: String(request.admittedAtMs),
      keyId: request.key,
      leaseIds: [...hold.leaseIds],
      holdNanoUsd: String(hold.amount),
    },
  );

describe("a request of a scoped token", () => {
  it("holds and is charged in its account, its account's month, its key's month and its token at once", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const key = await world.keyOf(account);
    const month = await limit(world, account, undefined, tokens(500));
    const keyMonth = await limit(world, account, key, tokens(400));
    const token = tokenBudget("header.payload");
    const clock = handClock();
    const budgets = await world.replica({ clock });
    const request = limited(account, key, token, tokens(300), tokens(100));
    const hold = await budgets.hold(request);
    expect(hold.leaseIds).toHaveLength(4);
    hold.settle(nano(tokens(60)));
    const sent = record(request, hold, 60);
    expect(await world.settlement.settle([sent], "1")).toEqual([sent.spoolId]);
    for (let round = 0; round < 3; round++) {
      clock.pass(10_001);
      await budgets.tick();
    }
    const spent = { spent: tokens(60), leased: 0n };
    expect(await world.budget(account)).toEqual({ limit: usd, ...spent });
    expect(await world.budgetRow(month)).toEqual({ limit: tokens(500), ...spent });
    expect(await world.budgetRow(keyMonth)).toEqual({ limit: tokens(400), ...spent });
    expect(await world.budgetRow(token)).toEqual({ limit: tokens(300), ...spent });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
    // Leases are forgotten sooner than what was charged.
    await world.db.deleteFrom("lease").where("closedAt", "is not", null).execute();
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it.each([
    ["account", /left of the account's funds/],
    ["account month", /account's monthly limit is used up/],
    ["key month", /API key's monthly limit is used up/],
    ["token", /scoped token's spending limit is used up/],
  ])("is refused when its %s has no room, and told so", async (which, sentence) => {
    const world = await openWorld(postgres);
    const of = (scope: string) => (scope === which ? tokens(90) : tokens(1_000));
    const account = await world.account(of("account"));
    const key = await world.keyOf(account);
    await limit(world, account, undefined, of("account month"));
    await limit(world, account, key, of("key month"));
    const budgets = await world.replica();
    const request = (full: bigint, floor?: bigint) =>
      limited(account, key, tokenBudget(which), of("token"), full, floor);
    await expect(budgets.hold(request(tokens(91)))).rejects.toThrow(sentence);
    const lowered = await budgets.hold(request(tokens(100), tokens(50)));
    expect(lowered.amount).toBe(tokens(90));
    const refused = await Promise.resolve(budgets.hold(request(1n))).catch((error: Error) => error);
    expect(refused).toBeInstanceOf(InsufficientFunds);
    expect((refused as Error).message).toMatch(sentence);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});

describe("a request admitted in one month that runs in the next, as a line of a batch", () => {
  it("is held and charged in the month of its admission alone", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const key = await world.keyOf(account);
    const thisMonth = await limit(world, account, undefined, tokens(500));
    await limit(world, account, key, tokens(500));
    const now = new Date();
    const admittedAtMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1) - 1;
    const budgets = await world.replica();
    const spending = { hasAccountLimit: true, hasKeyLimit: true, token: null };
    const request = { ...ask(account, tokens(100)), key, spending, admittedAtMs };
    const hold = await budgets.hold(request);
    const sent = record(request, hold, 60);
    expect(await world.settlement.settle([sent], "1")).toEqual([sent.spoolId]);
    expect(await world.budgetRow(accountMonthBudget(account, admittedAtMs))).toMatchObject({ spent: tokens(60) });
    expect(await world.budgetRow(thisMonth)).toMatchObject({ spent: 0n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});

describe("a monthly limit", () => {
  it("set in the middle of a month counts what the month has spent already", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const key = await world.keyOf(account);
    await world.settlement.settle([usageRecord(account, { input: 0, output: 70 }, { keyId: key })], "1");
    const month = await limit(world, account, key, tokens(100));
    expect(await world.budgetRow(month)).toEqual({ limit: tokens(100), spent: tokens(70), leased: 0n });
    const budgets = await world.replica();
    const request = {
      ...ask(account, tokens(31)),
      key,
      spending: { hasAccountLimit: false, hasKeyLimit: true, token: null },
    };
    await expect(budgets.hold(request)).rejects.toThrow(InsufficientFunds);
  });

  it.each(["account", "key"])("of the %s binds a month's row that is made while it is set", async (owner) => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const key = await world.keyOf(account);
    const next = Date.now() + 32 * 86_400_000;
    const isKey = owner === "key";
    const monthOf = (atMs: number) => (isKey ? keyMonthBudget(key, atMs) : accountMonthBudget(account, atMs));
    let making: Promise<void> | undefined;
    await inTransaction(world.db, async (trx) => {
      const whose = { account, ...(isKey ? { key } : {}) };
      expect(await setMonthlyLimit(trx, whose, tokens(5), monthOf(Date.now()), by)).toBe(true);
      making = createBudgetMaker(world.db)(monthScopes({ account, key }, next));
      // It has begun, and waits for the limit's transaction.
      await vi.waitFor(async () => {
        const { rows } = await world.pool.query("select from pg_locks where not granted");
        expect(rows).toHaveLength(1);
      }, patience);
    });
    await making;
    expect(await world.budgetRow(monthOf(next))).toEqual({ limit: tokens(5), spent: 0n, leased: 0n });
  });

  it("lowered below what is spent and leased calls the slices back within two seconds and admits nothing until it fits", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const feed = createChangeFeed({ pool: world.pool, log });
    const budgets = await world.replica();
    feed.on("limit", budgets.recall);
    await feed.start();
    // What a grant still brings to a slice that was called back goes with its next round.
    budgets.start();
    onTestFinished(() => budgets.stop());
    onTestFinished(() => feed.stop());
    const month = await limit(world, account, undefined, tokens(1_000));
    const spending = { hasAccountLimit: true, hasKeyLimit: false, token: null };
    const request = (amount: bigint) => ({ ...ask(account, amount), spending });
    const first = request(tokens(50));
    const hold = await budgets.hold(first);
    (await budgets.hold(request(tokens(40)))).release();
    await limit(world, account, undefined, tokens(30));
    await expect
      .poll(async () => (await world.budgetRow(month))?.leased, { timeout: promisedMs(2_000) })
      .toBe(tokens(50));
    await expect(budgets.hold(request(1n))).rejects.toThrow(InsufficientFunds);
    hold.settle(nano(tokens(20)));
    await world.settlement.settle([record(first, hold, 20)], "1");
    await budgets.tick();
    await budgets.tick();
    await expect
      .poll(async () => {
        const room = await Promise.resolve(budgets.hold(request(tokens(10)))).catch(() => undefined);
        return room?.amount;
      }, patience)
      .toBe(tokens(10));
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});

describe("a suspension", () => {
  it("calls the slices back in under two seconds, and no later grant finds room", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const feed = createChangeFeed({ pool: world.pool, log });
    const budgets = await world.replica();
    feed.on("account", budgets.recall);
    await feed.start();
    // What a grant still brings to a slice that was called back goes with its next round.
    budgets.start();
    onTestFinished(() => budgets.stop());
    onTestFinished(() => feed.stop());
    (await budgets.hold(ask(account, tokens(10)))).release();
    expect((await world.budget(account)).leased).toBeGreaterThan(0n);
    await inTransaction(world.db, async (trx) => {
      await suspendIn(trx, account, "admin", { by: "u:op", ip: "", note: "" });
      await announce(trx, "account", account);
    });
    await expect
      .poll(async () => (await world.budget(account)).leased, { timeout: promisedMs(2_000), interval: 25 })
      .toBe(0n);
    await expect(budgets.hold(ask(account, tokens(10)))).rejects.toThrow(SpendingSuspended);
    expect((await world.budget(account)).leased).toBe(0n);
  });
});

describe("room in a retired slice", () => {
  it("is found before a request is told that there is none", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(tokens(100));
    const budgets = await world.replica();
    (await budgets.hold(ask(account, tokens(100)))).release();
    budgets.recall(account);
    expect((await budgets.hold(ask(account, tokens(100)))).amount).toBe(tokens(100));
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});

describe("limits of every scope", () => {
  it("are never passed by 500 parallel requests of four tokens at two replicas", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd / 100n);
    const key = await world.keyOf(account);
    const month = await limit(world, account, undefined, (usd * 9n) / 1_000n);
    const keyMonth = await limit(world, account, key, (usd * 8n) / 1_000n);
    const tokensOf = ["a", "b", "c", "d"].map(tokenBudget);
    // Renewals queue behind five hundred requests.
    const timing = { ttlMs: 15_000, renewEveryMs: 500, marginMs: 300, idleMs: 300, tickMs: 50 };
    const replicas = await Promise.all([1, 2].map(() => world.replica({ timing })));
    for (const replica of replicas) replica.start();
    onTestFinished(async () => void (await Promise.all(replicas.map((replica) => replica.stop()))));
    const watched = [`account/${account}`, month, keyMonth, ...tokensOf];
    const above: unknown[] = [];
    let samples = 0;
    const sampling = new AbortController();
    const sampler = (async () => {
      while (!sampling.signal.aborted) {
        const { rows } = await world.pool.query("select * from budget where spent + leased > lim");
        above.push(...rows);
        samples += 1;
      }
    })();
    const serve = async (i: number): Promise<"served" | "refused"> => {
      for (let attempt = 0; attempt < 3; attempt++) {
        const token = tokensOf[i % 4] as BudgetId;
        const request = limited(account, key, token, usd / 400n, tokens(200), tokens(10));
        try {
          const hold = await (replicas[(i + attempt) % 2] as RunningBudgets).hold(request);
          const used = Math.min(Number(hold.amount / tokenPrice), 100);
          if (i % 3) hold.settle(nano(tokens(used)));
          else hold.awaitRecord();
          const sent = record(request, hold, used);
          expect(await world.settlement.settle([sent], "1")).toEqual([sent.spoolId]);
          return "served";
        } catch (error) {
          if (!(error instanceof InsufficientFunds)) throw error;
        }
      }
      return "refused";
    };
    const outcomes = await Promise.all(Array.from({ length: 500 }, (_, i) => serve(i)));
    await expect.poll(async () => (await world.budget(account)).leased, patience).toBe(0n);
    sampling.abort();
    await sampler;
    expect(samples).toBeGreaterThan(20);
    expect(above).toEqual([]);
    expect(outcomes.filter((outcome) => outcome === "served").length).toBeGreaterThan(20);
    expect(outcomes.filter((outcome) => outcome === "refused").length).toBeGreaterThan(100);
    for (const id of watched) {
      const row = await world.budgetRow(id as BudgetId);
      expect(row?.leased).toBe(0n);
      expect(row?.spent).toBeLessThanOrEqual(row?.limit ?? 0n);
    }
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});
