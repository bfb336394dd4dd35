import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ask, handClock, openWorld, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;

describe("budget slices", () => {
  it("far from their limit go on serving for seconds on end while PostgreSQL is away, and never past their lease", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(1_000n * usd);
    const clock = handClock();
    let isUnavailable = false;
    const reached = <T>(work: () => Promise<T>) => (isUnavailable ? Promise.reject(new Error("no database")) : work());
    const store: typeof world.leaseStore = {
      ...world.leaseStore,
      grant: (...request) => reached(() => world.leaseStore.grant(...request)),
      sync: (...request) => reached(() => world.leaseStore.sync(...request)),
    };
    const budgets = await world.replica({ clock, store });
    /** Ten a second, each kept until its record comes, which none does. */
    const served = async (seconds: number) => {
      let count = 0;
      for (; count < seconds * 10; count++) {
        clock.pass(100);
        const hold = await Promise.resolve(budgets.hold(ask(account, 1_000n))).catch(() => undefined);
        if (!hold) break;
        hold.settle(nano(1_000n));
        if (count % 10 === 9) await budgets.tick();
      }
      return count;
    };
    expect(await served(20)).toBe(200);
    isUnavailable = true;
    const further = await served(60);
    expect(further).toBeGreaterThan(120);
    expect(further).toBeLessThanOrEqual(280);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("that end while more is leased are replaced, and nobody is told that the money is used up", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(1_000n * usd);
    const clock = handClock();
    let grantMs = 0;
    const store: typeof world.leaseStore = {
      ...world.leaseStore,
      grant: async (...request) => {
        const outcome = await world.leaseStore.grant(...request);
        clock.pass(grantMs);
        grantMs = 0;
        return outcome;
      },
    };
    const budgets = await world.replica({ clock, store });
    const first = await budgets.hold(ask(account, usd));
    first.release();
    clock.pass(26_000);
    grantMs = 2_000;
    const hold = await budgets.hold(ask(account, 100n * usd));
    expect(hold.amount).toBe(100n * usd);
    expect(hold.leaseIds).not.toEqual(first.leaseIds);
    expect(hold.expiresAtMs).toBeGreaterThan(clock.unixMs() + 27_000);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});
