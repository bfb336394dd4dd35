import { setImmediate as turn, setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { type Hold, InsufficientFunds } from "../../../control-plane/billing/hold.ts";
import type { RunningBudgets } from "../../../control-plane/billing/leases.ts";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ask, handClock, openWorld, patience, tokenPrice, usageRecord, type World, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;

/** What the agent's record of a held request settles. */
async function settle(world: World, account: AccountId, requestId: string, hold: Hold, tokens: number, attempt = 1) {
  const record = usageRecord(
    account,
    { input: 0, output: tokens },
    { requestId, attempt, leaseIds: [...hold.leaseIds], holdNanoUsd: String(hold.amount) },
  );
  expect(await world.settlement.settle([record], "1")).toEqual([record.spoolId]);
}

/** Returns go round by round: what was free, then what the ledger freed. */
async function returnAll(budgets: RunningBudgets, clock: ReturnType<typeof handClock>) {
  for (let round = 0; round < 3; round++) {
    clock.pass(10_001);
    await budgets.tick();
  }
}

describe("budget slices", () => {
  it("let a request hold at once, without the database, while the slice has room", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const budgets = await world.replica();
    await budgets.hold(ask(account, 1_000n));
    const second = budgets.hold(ask(account, 1_000n));
    expect(second).not.toBeInstanceOf(Promise);
    expect((second as Hold).amount).toBe(1_000n);
    expect((second as Hold).leaseIds).toHaveLength(1);
  });

  it("share one grant between requests that arrive together", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const budgets = await world.replica();
    const holds = await Promise.all(Array.from({ length: 50 }, () => budgets.hold(ask(account, 1_000n))));
    expect(new Set(holds.flatMap((hold) => hold.leaseIds)).size).toBe(1);
  });

  it("hold what remains when the full amount does not fit, down to the floor, and refuse below it", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(1_000n);
    const budgets = await world.replica();
    expect((await budgets.hold(ask(account, 700n))).amount).toBe(700n);
    expect((await budgets.hold(ask(account, 700n, 250n))).amount).toBe(300n);
    await expect(budgets.hold(ask(account, 1n))).rejects.toThrow(InsufficientFunds);
    expect(await world.budget(account)).toEqual({ limit: 1_000n, spent: 0n, leased: 1_000n });
  });

  it("refuse an account without funds or without a budget", async () => {
    const world = await openWorld(postgres);
    const budgets = await world.replica();
    await expect(budgets.hold(ask(await world.account(0n), 1n))).rejects.toThrow(InsufficientFunds);
    await expect(budgets.hold(ask("u:nobody" as AccountId, 1n))).rejects.toThrow(InsufficientFunds);
    expect(await world.openLeases()).toEqual([]);
  });

  it("hold a request that costs nothing on no slice, whatever the funds", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(0n);
    const hold = await (await world.replica()).hold(ask(account, 0n));
    expect(hold).toMatchObject({ amount: 0n, leaseIds: [] });
    expect(await world.openLeases()).toEqual([]);
  });

  it("give the unused part back when idle and close once everything is in the ledger", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const clock = handClock();
    const budgets = await world.replica({ clock });
    const request = ask(account, 100n * tokenPrice);
    const hold = await budgets.hold(request);
    hold.settle(nano(30n * tokenPrice));
    await returnAll(budgets, clock);
    expect(await world.budget(account)).toMatchObject({ spent: 0n, leased: 30n * tokenPrice });
    await settle(world, account, request.requestId, hold, 30);
    await returnAll(budgets, clock);
    expect(await world.budget(account)).toEqual({ limit: usd, spent: 30n * tokenPrice, leased: 0n });
    expect(await world.openLeases()).toEqual([]);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("keep the whole hold of a request without figures until its record is durable, then free the rest", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(100n * tokenPrice);
    const clock = handClock();
    const budgets = await world.replica({ clock });
    const request = ask(account, 100n * tokenPrice);
    const hold = await budgets.hold(request);
    hold.awaitRecord();
    await returnAll(budgets, clock);
    await expect(budgets.hold(ask(account, 1n))).rejects.toThrow(InsufficientFunds);
    await settle(world, account, request.requestId, hold, 10);
    clock.pass(1_000);
    await budgets.tick();
    const next = await budgets.hold(ask(account, 90n * tokenPrice));
    expect(next.amount).toBe(90n * tokenPrice);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("wait for the record of the attempt that counts, not for an earlier one", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(100n * tokenPrice);
    const clock = handClock();
    const budgets = await world.replica({ clock });
    const request = ask(account, 100n * tokenPrice);
    const hold = await budgets.hold(request);
    hold.awaitRecord(2);
    await settle(world, account, request.requestId, hold, 5, 1);
    await returnAll(budgets, clock);
    await expect(budgets.hold(ask(account, 1n))).rejects.toThrow(InsufficientFunds);
    await settle(world, account, request.requestId, hold, 20, 2);
    await returnAll(budgets, clock);
    expect(await world.budget(account)).toEqual({ limit: 100n * tokenPrice, spent: 20n * tokenPrice, leased: 0n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("keep apart what one request holds in two runs of it, and free both when the later one is on record", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(100n * tokenPrice);
    const clock = handClock();
    const budgets = await world.replica({ clock });
    const request = ask(account, 40n * tokenPrice);
    const [first, second] = [await budgets.hold(request), await budgets.hold(request)];
    first.awaitRecord(1);
    second.awaitRecord(2);
    await returnAll(budgets, clock);
    await expect(budgets.hold(ask(account, 30n * tokenPrice, 30n * tokenPrice))).rejects.toThrow(InsufficientFunds);
    await settle(world, account, request.requestId, second, 20, 2);
    await returnAll(budgets, clock);
    expect(await world.budget(account)).toEqual({ limit: 100n * tokenPrice, spent: 20n * tokenPrice, leased: 0n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("ignore every end of a hold after the first", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(1_000n);
    const clock = handClock();
    const budgets = await world.replica({ clock });
    const hold = await budgets.hold(ask(account, 1_000n));
    hold.release();
    hold.release();
    hold.settle(nano(500n));
    hold.awaitRecord();
    expect((await budgets.hold(ask(account, 1_000n))).amount).toBe(1_000n);
    await expect(budgets.hold(ask(account, 1n))).rejects.toThrow(InsufficientFunds);
  });
});

describe("leases", () => {
  it("admit nothing in their last seconds when renewals fail, and go on once one succeeds", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const clock = handClock();
    const budgets = await world.replica({ clock });
    const first = await budgets.hold(ask(account, 1_000n));
    expect(first.expiresAtMs - clock.unixMs()).toBeLessThanOrEqual(30_000);
    await world.pool.query("alter table lease rename to lease_away; alter table budget rename to budget_away");
    clock.pass(26_000);
    await budgets.tick();
    expect(budgets.hold(ask(account, 1_000n))).not.toBeInstanceOf(Promise);
    clock.pass(1_500);
    await expect(budgets.hold(ask(account, 1_000n))).rejects.toThrow(DatabaseUnavailable);
    await world.pool.query("alter table lease_away rename to lease; alter table budget_away rename to budget");
    await budgets.tick();
    await expect(Promise.resolve(budgets.hold(ask(account, 1_000n)))).resolves.toMatchObject({ amount: 1_000n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("are renewed every 10 s on the server's clock", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const clock = handClock();
    const budgets = await world.replica({ clock });
    await budgets.hold(ask(account, 1_000n));
    await world.pool.query("update lease set expires_at = now() + interval '1 s'");
    clock.pass(10_001);
    await budgets.tick();
    const { rows } = await world.pool.query("select expires_at > now() + interval '20 s' as renewed from lease");
    expect(rows).toEqual([{ renewed: true }]);
  });

  it("of a dead replica go back only after their time and once no agent reports them open", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const dead = await world.replica();
    const hold = await dead.hold(ask(account, 100n * tokenPrice));
    const before = await world.budget(account);
    const clock = handClock();
    let open: Set<string> | undefined;
    const survivor = await world.replica({ clock, openLeaseIds: async () => open });
    const sweep = async () => {
      clock.pass(10_001);
      await survivor.tick();
      return await world.budget(account);
    };
    open = new Set();
    expect(await sweep()).toEqual(before);
    await world.pool.query("update lease set expires_at = now() - interval '1 minute'");
    open = new Set(hold.leaseIds);
    expect(await sweep()).toEqual(before);
    open = undefined;
    expect(await sweep()).toEqual(before);
    open = new Set();
    expect(await sweep()).toEqual({ limit: usd, spent: 0n, leased: 0n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("of a host that was silent for a day go back with a metric and an audit row", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const hold = await (await world.replica()).hold(ask(account, 100n * tokenPrice));
    await world.pool.query("update lease set expires_at = now() - interval '1 minute'");
    const clock = handClock();
    const voided = new Map(hold.leaseIds.map((leaseId) => [leaseId as string, "host-1"]));
    const survivor = await world.replica({ clock, metrics: world.metrics, voidedLeases: async () => voided });
    clock.pass(10_001);
    await survivor.tick();
    expect(await world.budget(account)).toEqual({ limit: usd, spent: 0n, leased: 0n });
    const { rows } = await world.pool.query("select subject, account_id, after->>'host' as host from audit");
    expect(rows).toContainEqual({ subject: hold.leaseIds[0], account_id: account, host: "host-1" });
    expect(await world.registry.metrics()).toContain('stoker_unrecorded_released_total{what="lease"} 1');
  });

  it("that another replica closed hold nothing more for a replica that wakes up late", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const clock = handClock();
    const sleeper = await world.replica({ clock });
    const hold = await sleeper.hold(ask(account, 1_000n));
    await world.pool.query("update lease set expires_at = now() - interval '1 minute'");
    const survivorClock = handClock();
    const survivor = await world.replica({ clock: survivorClock });
    survivorClock.pass(10_001);
    await survivor.tick();
    expect(await world.openLeases()).toEqual([]);
    clock.pass(60_000);
    const next = await sleeper.hold(ask(account, 1_000n));
    expect(next.leaseIds).not.toEqual(hold.leaseIds);
    hold.release();
    await sleeper.tick();
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("go back at shutdown, but for what is held or not yet in the ledger", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const budgets = await world.replica();
    await budgets.hold(ask(account, 300n));
    (await budgets.hold(ask(account, 500n))).settle(nano(200n));
    (await budgets.hold(ask(account, 500n))).release();
    await budgets.stop();
    expect(await world.budget(account)).toMatchObject({ spent: 0n, leased: 500n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});

describe("shutdown", () => {
  it("waits for a refill in flight and gives it back", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const refill = Promise.withResolvers<void>();
    const grants: ReturnType<World["leaseStore"]["grant"]>[] = [];
    const grant: World["leaseStore"]["grant"] = (...call) => {
      const ready = grants.length === 0 ? Promise.resolve() : refill.promise;
      const granted = ready.then(() => world.leaseStore.grant(...call));
      grants.push(granted);
      return granted;
    };
    const budgets = await world.replica({ store: { ...world.leaseStore, grant } });
    await budgets.hold(ask(account, 300n));
    while (grants.length === 1) (await budgets.hold(ask(account, 300n))).release();
    const stopped = budgets.stop();
    // A stop that does not wait is over before.
    await Promise.race([stopped, wait(1_000)]);
    refill.resolve();
    await Promise.all([stopped, ...grants]);
    expect(await world.budget(account)).toMatchObject({ spent: 0n, leased: 300n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});

describe("a limit", () => {
  it("of USD 0.01 is never passed by 500 parallel requests on two replicas while a third dies, and none of it stays stranded", async () => {
    const world = await openWorld(postgres);
    const limit = usd / 100n;
    const account = await world.account(limit);
    const timing = {
      // Renewals queue behind five hundred requests: a slow machine must not take these replicas for dead.
      ttlMs: 6_000,
      renewEveryMs: 500,
      marginMs: 300,
      idleMs: 300,
      tickMs: 50,
      sweepEveryMs: 100,
      sweepGraceMs: 200,
    };
    const replicas = await Promise.all([1, 2].map(() => world.replica({ timing })));
    for (const replica of replicas) replica.start();
    onTestFinished(async () => void (await Promise.all(replicas.map((replica) => replica.stop()))));
    const dying = await world.replica({ timing });
    const unfinished = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const request = ask(account, 200n * tokenPrice);
        return { request, hold: await dying.hold(request) };
      }),
    );

    const samples: { spent: bigint; leased: bigint }[] = [];
    const sampling = new AbortController();
    const sample = async () => {
      const budget = await world.budget(account);
      samples.push(budget);
      return budget;
    };
    const sampler = (async () => {
      while (!sampling.signal.aborted) await sample();
    })();
    // Requests of at most 200 tokens (USD 0.0002) that turn out to use up to 100: USD 0.05 against USD 0.01.
    const serve = async (i: number): Promise<"served" | "refused"> => {
      for (let attempt = 0; attempt < 5; attempt++) {
        const request = ask(account, 200n * tokenPrice, 10n * tokenPrice);
        try {
          const hold = await (replicas[(i + attempt) % 2] as RunningBudgets).hold(request);
          const tokens = Math.min(Number(hold.amount / tokenPrice), 100);
          if (i % 3) hold.settle(nano(BigInt(tokens) * tokenPrice));
          else hold.awaitRecord();
          await settle(world, account, request.requestId, hold, tokens);
          return "served";
        } catch (error) {
          if (!(error instanceof InsufficientFunds)) throw error;
          await turn();
        }
      }
      return "refused";
    };
    const outcomes = await Promise.all(Array.from({ length: 500 }, (_, i) => serve(i)));
    // The dead replica's agents deliver their records late: half of them before its lease is swept.
    for (const { request, hold } of unfinished.slice(0, 5)) await settle(world, account, request.requestId, hold, 50);
    // Nothing else happens until the dead replica's lease ends: samples without a pause would only use its processors.
    sampling.abort();
    await sampler;
    await expect.poll(async () => (await sample()).leased, patience).toBe(0n);
    for (const { request, hold } of unfinished.slice(5)) {
      await settle(world, account, request.requestId, hold, 50);
      await sample();
    }

    expect(samples.length).toBeGreaterThan(20);
    for (const { spent, leased } of samples) expect(spent + leased).toBeLessThanOrEqual(limit);
    expect(outcomes.filter((outcome) => outcome === "served").length).toBeGreaterThan(20);
    expect(outcomes.filter((outcome) => outcome === "refused").length).toBeGreaterThan(100);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
    // What is left can be bought to the last nano-USD, at either replica.
    const { spent } = await world.budget(account);
    const rest = limit - spent;
    if (rest > 0n) expect((await (replicas[1] as RunningBudgets).hold(ask(account, rest))).amount).toBe(rest);
  });
});
