import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDeliveredCounts } from "../../../control-plane/billing/delivered-counts.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { ledgerLines } from "../../../control-plane/store/money/usage-lines.ts";
import { type AccountId, type RequestId, randomId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import type { SpooledRecord } from "../../../proto/usage-record.ts";
import { longer } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, patience, tokenPrice, usageRecord, type World, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const spoolIdsOf = (records: readonly SpooledRecord[]) => new Set(records.map((record) => record.spoolId));

async function bookSums(world: World): Promise<Record<string, bigint>> {
  const { rows } = await world.pool.query("select book, sum(amount)::bigint as sum from ledger_entry group by 1");
  return Object.fromEntries(rows.map((row) => [row.book, row.sum]));
}

describe("settlement", () => {
  it("posts a record once, however often and in whatever order it comes, from however many replicas", async () => {
    const world = await openWorld(postgres);
    const other = world.openSettlement();
    const account = await world.account(usd);
    const records = Array.from({ length: 200 }, (_, i) => usageRecord(account, { input: 10, output: i }));
    const sent =
      fc.sample(fc.shuffledSubarray([...records, ...records, ...records], { minLength: 600 }), {
        numRuns: 1,
        seed: 7,
      })[0] ?? [];
    const batches = Array.from({ length: 30 }, (_, i) => sent.slice(i * 20, i * 20 + 20));
    const acked = await Promise.all(batches.map((batch, i) => (i % 2 ? world.settlement : other).settle(batch, "1")));
    expect(new Set(acked.flat())).toEqual(spoolIdsOf(records));
    const expected = records.reduce((sum, record) => sum + (10n + BigInt(record.outputTokens ?? 0)) * tokenPrice, 0n);
    expect(await world.budget(account)).toMatchObject({ spent: expected, leased: 0n });
    expect(await bookSums(world)).toMatchObject({ customer_spent: expected, customer_available: usd - expected });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("writes a batch in one transaction", async () => {
    const world = await openWorld(postgres);
    const sizes: number[] = [];
    const store: typeof world.settlementStore = {
      ...world.settlementStore,
      settle: (facts) => {
        sizes.push(facts.records.length);
        return world.settlementStore.settle(facts);
      },
    };
    const account = await world.account(usd);
    const records = Array.from({ length: 200 }, () => usageRecord(account, { input: 1, output: 1 }));
    await world.openSettlement({ store }).settle(records, "1");
    expect(sizes).toEqual([200]);
  });

  it("prices characters, audio and images, and shows them on the usage lines", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const unit = { characterRate: "800000000", audioRate: "100000000", imageRate: "9000000000000", priceVersion: "0" };
    const steps = 1024 * 1024 * 20;
    await world.settlement.settle(
      [
        usageRecord(account, { input: 0, output: 0 }, { ...unit, model: "a/voice", characters: "1000" }),
        usageRecord(account, { input: 0, output: 0 }, { ...unit, model: "a/ears", audioMs: "8500" }),
        usageRecord(account, { input: 0, output: 0 }, { ...unit, model: "a/eyes", images: "2" }),
        usageRecord(
          account,
          { input: 0, output: 0 },
          { ...unit, model: "a/brush", images: "1", imagePixelSteps: String(steps / 4), imageUnit: String(steps) },
        ),
        usageRecord(account, { input: 7, output: 0 }, { ...unit, model: "a/rank", items: "3" }),
      ],
      "1",
    );
    const lines = await ledgerLines(world.db, account, Date.now() - 3_600_000, Date.now() + 3_600_000);
    const seen = new Map(
      lines.map((line) => [line.model, [line.pricingType, Number(line.milliUnits) / 1000, line.cost]]),
    );
    expect(Object.fromEntries(seen)).toEqual({
      // Nano-USD: 1000 characters at USD 0.8 per million.
      "a/voice": ["input_character_length", 1000, 800_000n],
      "a/ears": ["input_length", 8.5, 850_000n],
      "a/eyes": ["image_units", 2, 18_000_000n],
      "a/brush": ["image_units", 0.25, 2_250_000n],
      "a/rank": ["tokens", 7, 7_000n],
    });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("captures once per request whatever attempts arrive in whatever order, and books the void ones as our loss", async () => {
    const world = await openWorld(postgres);
    const attempts = fc.array(
      fc.record({ output: fc.integer({ min: 0, max: 50 }), hold: fc.integer({ min: 0, max: 60 }) }),
      {
        minLength: 1,
        maxLength: 4,
      },
    );
    const scenario = fc.tuple(fc.array(attempts, { minLength: 1, maxLength: 8 }), fc.infiniteStream(fc.nat()));
    await fc.assert(
      fc.asyncProperty(scenario, async ([requests, order]) => {
        const account = await world.account(usd);
        const records = requests.flatMap((outcomes) => {
          const requestId = randomId<"request">(24);
          return outcomes.map(({ output, hold }, i) =>
            usageRecord(
              account,
              { input: 0, output },
              {
                requestId,
                attempt: i + 1,
                holdNanoUsd: String(BigInt(hold) * tokenPrice),
              },
            ),
          );
        });
        const tripled = [...records, ...records, ...records];
        const shuffled = tripled.map((record) => ({ record, at: order.next().value ?? 0 })).sort((a, b) => a.at - b.at);
        for (let i = 0; i < shuffled.length; i += 5) {
          await world.settlement.settle(
            shuffled.slice(i, i + 5).map(({ record }) => record),
            "1",
          );
        }
        const charges = requests.map((outcomes) => {
          const top = outcomes[outcomes.length - 1];
          return BigInt(Math.min(top?.output ?? 0, top?.hold ?? 0)) * tokenPrice;
        });
        const charged = charges.reduce((sum, charge) => sum + charge, 0n);
        const cost = records.reduce((sum, record) => sum + BigInt(record.outputTokens ?? 0) * tokenPrice, 0n);
        expect(await world.budget(account)).toMatchObject({ spent: charged, leased: 0n });
        const { rows } = await world.pool.query(
          "select coalesce(sum(amount), 0)::bigint as loss from ledger_entry where book = 'platform_loss' and account_id = $1",
          [account],
        );
        expect(rows[0].loss).toBe(cost - charged);
      }),
      { numRuns: longer(10, 25) },
    );
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("captures one attempt when two replicas settle two attempts of one request at once", async () => {
    const world = await openWorld(postgres);
    const other = world.openSettlement();
    const account = await world.account(usd);
    for (let round = 0; round < 30; round++) {
      const requestId = randomId<"request">(24);
      const first = usageRecord(account, { input: 0, output: 5 }, { requestId, attempt: 1 });
      const second = usageRecord(account, { input: 0, output: 3 }, { requestId, attempt: 2 });
      await Promise.all([world.settlement.settle([first], "1"), other.settle([second], "1")]);
    }
    expect(await world.budget(account)).toMatchObject({ spent: 90n * tokenPrice });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("keeps the part that no longer fits the limit as our loss when a record comes without its lease", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(100n * tokenPrice);
    const records = [usageRecord(account, { input: 0, output: 80 }), usageRecord(account, { input: 0, output: 80 })];
    await world.settlement.settle(records, "1");
    expect(await world.budget(account)).toMatchObject({ spent: 100n * tokenPrice });
    expect(await bookSums(world)).toMatchObject({ platform_loss: 60n * tokenPrice });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("writes a thousand records that bear one client label as a thousand rows", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const records = Array.from({ length: 1_000 }, () => usageRecord(account, { input: 1, output: 1 }));
    await world.usageStore.saveLabels(
      records.map((record) => ({ requestId: record.requestId as RequestId, label: "same-for-all", account })),
    );
    expect(new Set(await world.settlement.settle(records, "1"))).toEqual(spoolIdsOf(records));
    const { rows } = await world.pool.query(
      "select count(*)::int as n from usage join request_label using (request_id) where label = 'same-for-all'",
    );
    expect(rows[0].n).toBe(1_000);
    expect(await world.budget(account)).toMatchObject({ spent: 2_000n * tokenPrice });
  });

  it("settles the others of a group that has records nobody can bill, and acknowledges those from quarantine", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const good = usageRecord(account, { input: 1, output: 1 });
    const bad = usageRecord(account, { input: 1, output: 1 }, { outputTokens: "-3" });
    // Passes our reading, not PostgreSQL's.
    const poisoned = usageRecord(account, { input: 1, output: 1 }, { model: "nul\u0000byte" });
    const sent = [bad, poisoned, good];
    expect(new Set(await world.settlement.settle(sent, "1"))).toEqual(spoolIdsOf(sent));
    expect(await world.budget(account)).toMatchObject({ spent: 2n * tokenPrice });
  });

  it("shows on the ledger and the record which price and which discount a use was billed with", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const record = usageRecord(account, { input: 1, output: 1 }, { priceVersion: "7", discountId: "spring" });
    await world.settlement.settle([record], "1");
    const { rows } = await world.pool.query(
      `select price_version, discount_id from ledger_entry where request_id = $1
       union all select price_version, discount_id from usage where request_id = $1`,
      [record.requestId],
    );
    expect(rows).toEqual(Array.from({ length: 3 }, () => ({ price_version: 7n, discount_id: "spring" })));
  });

  it("finds the records of an account nobody knows, and charges nobody", async () => {
    const world = await openWorld(postgres);
    const stray = usageRecord("u:nobody" as AccountId, { input: 1, output: 1 });
    expect(await world.settlement.settle([stray], "1")).toEqual([stray.spoolId]);
    expect(await bookSums(world)).toEqual({ platform_loss: 2n * tokenPrice, platform_revenue: -2n * tokenPrice });
  });
});

describe("an attempt whose upstream broke", () => {
  const delivered = (account: AccountId, requestId: string, outputTokens: number) => ({
    requestId: requestId as RequestId,
    attempt: 1,
    account,
    outputTokens,
    leaseIds: [],
    hold: nano(usd),
  });

  it.each(["record first", "count first"])("costs at most what was delivered (%s)", async (order) => {
    const world = await openWorld(postgres);
    const counts = createDeliveredCounts({
      store: world.settlementStore,
      counts: world.unrecorded,
      log,
      metrics: world.metrics,
    });
    const account = await world.account(usd);
    const record = usageRecord(account, { input: 10, output: 200 });
    const steps = [
      () => world.settlement.settle([record], "1"),
      async () => {
        counts.report(delivered(account, record.requestId, 40), "broken");
        await counts.stop();
      },
    ];
    for (const step of order === "record first" ? steps : steps.reverse()) await step();
    expect(await world.budget(account)).toMatchObject({ spent: 50n * tokenPrice });
    expect(await bookSums(world)).toMatchObject({ platform_loss: 160n * tokenPrice });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("costs nothing when nothing was delivered, also where the engine made nothing of its prompt", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const record = usageRecord(account, { input: 10, output: 0 }, { endReason: "client_gone" });
    const counts = createDeliveredCounts({
      store: world.settlementStore,
      counts: world.unrecorded,
      log,
      metrics: world.metrics,
    });
    // Both at once: whichever is later takes back what the other charged, in the account and in its month.
    counts.report(delivered(account, record.requestId, 0), "broken");
    await world.settlement.settle([record], "1");
    await counts.stop();
    expect(await world.budget(account)).toMatchObject({ spent: 0n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("is billed by the delivered count when the agent lost its end, once the count is there", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const { id } = await world.replica();
    const lost = usageRecord(account, { input: 0, output: 0 }, { endReason: "lost", replicaId: id });
    expect(await world.settlement.settle([lost], "1")).toEqual([]);
    const counts = createDeliveredCounts({
      store: world.settlementStore,
      counts: world.unrecorded,
      log,
      metrics: world.metrics,
    });
    counts.report(delivered(account, lost.requestId, 12), "broken");
    await expect.poll(() => world.settlement.settle([lost], "1"), patience).toEqual([lost.spoolId]);
    expect(await world.budget(account)).toMatchObject({ spent: 12n * tokenPrice });
    await counts.stop();
  });

  it("costs nothing when the count never comes: at once if its replica is dead, after a bound if it lives", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(usd);
    const { id } = await world.replica();
    const dead = usageRecord(account, { input: 5, output: 0 }, { endReason: "lost", replicaId: "gone" });
    const alive = usageRecord(account, { input: 5, output: 0 }, { endReason: "lost", replicaId: id });
    expect(await world.settlement.settle([dead, alive], "1")).toEqual([dead.spoolId]);
    await expect.poll(() => world.settlement.settle([alive], "1"), patience).toEqual([alive.spoolId]);
    expect(await world.budget(account)).toMatchObject({ spent: 0n });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });
});
