// A cluster of its own: recovery after a kill syncs every database that other tests left in theirs.
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { Hold } from "../../../control-plane/billing/hold.ts";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { nano } from "../../../proto/money.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { ask, openWorld, tokenPrice, usageRecord, wholeBooks } from "./world.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres({ onDisk: true });
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
/** Recovery waits for the disk, which may be slow and shared. */
const patience = { timeout: 20_000, interval: 25 };

describe("a limit", () => {
  it("holds and nothing is captured twice when PostgreSQL is killed and started again in the middle", {
    timeout: 240_000,
  }, async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const budgets = await world.replica({ timing: { tickMs: 100, idleMs: 300 } });
    budgets.start();
    onTestFinished(() => budgets.stop());
    const served: { requestId: string; tokens: number }[] = [];
    const running = Array.from({ length: 40 }, async (_, i) => {
      for (let round = 0; round < 10; round++) {
        const request = ask(account, 50n * tokenPrice);
        let hold: Hold | undefined;
        await expect
          .poll(async () => {
            hold = await Promise.resolve(budgets.hold(request)).catch((error) => {
              expect(error).toBeInstanceOf(DatabaseUnavailable);
              return undefined;
            });
            return hold !== undefined;
          }, patience)
          .toBe(true);
        const tokens = (i + round) % 50;
        if (!hold) throw new Error("no hold");
        if (i % 2) hold.settle(nano(BigInt(tokens) * tokenPrice));
        else hold.awaitRecord();
        const record = usageRecord(
          account,
          { input: 0, output: tokens },
          {
            requestId: request.requestId,
            leaseIds: [...hold.leaseIds],
            holdNanoUsd: String(hold.amount),
          },
        );
        served.push({ requestId: request.requestId, tokens });
        // As an agent: again until it is acknowledged.
        await expect.poll(() => world.settlement.settle([record], "1"), patience).toEqual([record.spoolId]);
      }
    });
    await expect.poll(() => served.length, patience).toBeGreaterThan(60);
    await postgres.kill9();
    await postgres.restart();
    await Promise.all(running);
    const expected = served.reduce((sum, { tokens }) => sum + BigInt(tokens) * tokenPrice, 0n);
    await expect.poll(() => world.budget(account), patience).toEqual({ limit: usd, spent: expected, leased: 0n });
    expect(served).toHaveLength(400);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});
