import { afterAll, beforeAll, expect, it } from "vitest";
import { monthOf } from "../../../control-plane/billing/period.ts";
import { createUsageQueries } from "../../../control-plane/billing/usage-queries.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { createUsageStore } from "../../../control-plane/store/money/usage-store.ts";
import type { KeyId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { by, openBillingWorld, usd } from "./billing-world.ts";
import { usageRecord } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

it("I7: three months with a price change, a discount, a correction, a suspension and a top-up are recomputed from the ledger to the nano-dollar", async () => {
  const world = await openBillingWorld(postgres);
  const account = await world.account(20n * usd);
  const month = (n: number, day = 1, hour = 0) => Date.UTC(2025, n, day, hour);
  const use = async (tokens: number, rate: bigint, at: number, more = {}) => {
    const record = usageRecord(
      account,
      { input: tokens, output: tokens },
      {
        keyId: "k1" as KeyId,
        admittedAtMs: String(at),
        inputRate: String(rate),
        cachedInputRate: String(rate),
        outputRate: String(rate * 3n),
        ...more,
        holdNanoUsd: String(100n * usd),
      },
    );
    world.setClock(at);
    await world.settlement.settle([record], "1");
    await world.postedAt(account, new Date(at));
    return record;
  };
  const usagePage = () => createUsageQueries({ store: world.usageStore, clock: world.clock });
  const totalOf = async (name: string) => (await usagePage().usage({ account }, name)).months[0]?.totalCost;
  const closeAt = async (at: number) => {
    world.setClock(at);
    await Promise.all([world.billing.closeMonths(), world.make().closeMonths()]);
  };
  await world.pool.query("update account set created_at = '2025-01-01'");
  await world.postedAt(account, new Date(month(0)));

  // January: an odd rate, then another price from the middle of the month on.
  const early = await use(333_333, 1_000_000_003n, month(0, 5));
  await use(777_777, 2_000_000_001n, month(0, 20), { priceVersion: "2", model: "acme/b" });
  const january = await totalOf("2025.01");
  await closeAt(month(1, 1, 2));
  expect((await world.billing.invoices.list(account, 10, undefined)).invoices).toEqual([]);
  await closeAt(month(1, 1, 4));

  // February: discounted rates, and a second attempt that costs less than January's first one.
  await use(1_000_003, 800_000_001n, month(1, 3), { priceVersion: "3" });
  const again = usageRecord(
    account,
    { input: 333_333, output: 11 },
    {
      requestId: early.requestId,
      attempt: 2,
      keyId: "k1",
      admittedAtMs: String(month(0, 5)),
      inputRate: "1000000003",
      cachedInputRate: "1000000003",
      outputRate: "3000000009",
      holdNanoUsd: String(100n * usd),
    },
  );
  world.setClock(month(1, 4));
  await world.settlement.settle([again], "1");
  await world.postedAt(account, new Date(month(1, 4)));
  const february = await totalOf("2025.02");
  expect(await totalOf("2025.01")).toBe(january);

  // March: the month's limit suspends; raised; funds fall below the threshold and are topped up.
  await closeAt(month(2, 1, 4));
  await world.billing.limits.setAccount(account, usd, by);
  await use(400_000, 1_000_000_000n, month(2, 2), { priceVersion: "4" });
  await world.billing.updateStatus(account);
  expect(await world.reasons(account)).toEqual(["limit-reached"]);
  await world.billing.limits.setAccount(account, null, by);
  expect(await world.reasons(account)).toEqual([]);
  await world.billing.paying.addFunds(account, 500, "https://stoker.example/billing");
  await world.billing.paying.setTopup(account, { isOn: true, amount: 30n * usd, threshold: 19n * usd }, by);
  expect(world.provider.asked).toHaveLength(1);
  const march = await totalOf("2025.03");
  await closeAt(month(3, 1, 4));
  await closeAt(month(3, 1, 5));

  const { invoices } = await world.billing.invoices.list(account, 10, undefined);
  expect(invoices.map(({ total }) => total)).toEqual([march, february, january]);
  expect(invoices.map(({ status }) => status)).toEqual(["paid", "paid", "paid"]);
  // Recomputed by other means than the product's: every entry, in JavaScript.
  const { rows: entries } = await world.pool.query<{ amount: bigint; posted_at: Date; book: string; kind: string }>(
    "select amount, posted_at, book, kind from ledger_entry where account_id = $1",
    [account],
  );
  const posted = (n: number) =>
    entries
      .filter((e) => e.book === "customer_spent" && e.kind !== "invoice" && e.posted_at.getUTCMonth() === n)
      .reduce((sum, e) => sum + e.amount, 0n);
  expect(invoices.map(({ total }) => total)).toEqual([posted(2), posted(1), posted(0)]);
  for (const { id, total } of invoices) {
    const lines = await world.db.selectFrom("invoiceLine").select("cost").where("invoiceId", "=", id).execute();
    expect(lines.reduce((sum, line) => sum + line.cost, 0n)).toBe(total);
  }
  // What was invoiced has left customer_spent; nothing else moved.
  const spent = entries.filter((e) => e.book === "customer_spent").reduce((sum, e) => sum + e.amount, 0n);
  expect(spent).toBe(0n);
  const checklist = await world.checklist(account);
  const invoiced = invoices.reduce((sum, { total }) => sum + total, 0n);
  expect(checklist).toMatchObject({ recent: 0n, paymentsBalance: invoiced - 50n * usd, suspendReason: null });
  expect(await checkBooks(world.db)).toMatchObject({ imbalance: 0n, unbalancedTransactions: [], doubleCaptures: [] });
  // A closed month is read from its invoice, with its id, and says what it said before.
  const year = await usagePage().usage({ account }, "2025.01", "2025.04");
  expect(year.months.map(({ totalCost }) => totalCost)).toEqual([january, february, march, 0n]);
  expect(year.months.map(({ invoiceId }) => invoiceId)).toEqual([
    ...invoices.map(({ id }) => id).reverse(),
    "NOT_FINAL",
  ]);
  // In one statement, because a read replica and the primary may run two of them at different states.
  let statements = 0;
  const counted = world.db.withPlugin({
    transformQuery({ node }) {
      statements += 1;
      return node;
    },
    transformResult: async ({ result }) => result,
  });
  const first = monthOf(Date.UTC(2025, 0));
  const closed = await createUsageStore(counted).closedMonths(account, first, first + 3);
  expect(statements).toBe(1);
  expect(closed.through).toBe(first + 2);
  expect(closed.invoices.map(({ month, lines }) => [month, lines.reduce((sum, { cost }) => sum + cost, 0n)])).toEqual([
    [first, january],
    [first + 1, february],
    [first + 2, march],
  ]);
});
