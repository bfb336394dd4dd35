import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkBooks } from "../../../control-plane/store/check-books.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { ask, handClock, openWorld, wholeBooks } from "./world.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;

describe("budget slices", () => {
  it("that end while more is leased are replaced, and nobody is told that the money is used up", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(1_000n * usd);
    const clock = handClock();
    let grantMs = 0;
    const store: typeof world.leaseStore = {
      ...world.leaseStore,
      grant: async (...wish) => {
        const outcome = await world.leaseStore.grant(...wish);
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
