// The short way of a settlement (one call of the database) ends in the same books as the long one (`post`), whatever comes.
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { claimedTicket } from "../../../control-plane/billing/claimed-ticket.ts";
import { monthOf } from "../../../control-plane/billing/period.ts";
import { moneyRules } from "../../../control-plane/billing/post.ts";
import { readRecord, type SettledRecord } from "../../../control-plane/billing/record.ts";
import { accountMonthBudget, keyMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { isPlain, settlePlain } from "../../../control-plane/store/money/settle-plain.ts";
import { createSettlementStore } from "../../../control-plane/store/money/settlement-store.ts";
import { ledgerLines, monthLines } from "../../../control-plane/store/money/usage-lines.ts";
import type { AccountId, KeyId, LeaseId } from "../../../proto/ids.ts";
import { longer } from "../../fakes/nightly.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { openWorld, tokenPrice, usageRecord, type World, wholeBooks } from "./world.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const now = Date.UTC(2026, 5, 15);
const accounts = ["rich", "poor", "free"] as const;

/** Three payers: one with room and a token, one with limits of month and key as well, one without any limit. */
async function seed(world: World, run: number): Promise<void> {
  for (const name of accounts) {
    const account = `${name}${run}`;
    await world.pool.query(
      `insert into account (account_id, email, display_name, wrapped_dek, kek_version) values ($1, $1, $1, '', 1)`,
      [account],
    );
    await world.pool.query(
      `insert into api_key (token_id, account_id, name, lookup, ciphertext, fragment) values ($1, $2, 'auto', $3, '', '')`,
      [`k-${account}`, account, Buffer.from(account)],
    );
  }
  const [rich, poor, free] = accounts.map((name) => `${name}${run}`) as [string, string, string];
  const month = accountMonthBudget(poor as AccountId, now);
  const budgets: [id: string, scope: string, account: string, limit: bigint | null, leased: bigint][] = [
    [`account/${rich}`, "account", rich, 100_000n, 1_100n],
    [`jwt/${rich}`, "jwt", rich, 90n, 80n],
    [`account/${poor}`, "account", poor, 150n, 100n],
    [month, "account_month", poor, 120n, 60n],
    [keyMonthBudget(`k-${poor}` as KeyId, now), "key_month", poor, 100n, 0n],
    [`account/${free}`, "account", free, null, 0n],
  ];
  for (const [id, scope, account, limit, leased] of budgets)
    await world.pool.query(
      "insert into budget (budget_id, scope, account_id, lim, leased) values ($1, $2, $3, $4, $5)",
      [id, scope, account, limit && limit * tokenPrice, leased * tokenPrice],
    );
  const leases: [id: string, budget: string, granted: bigint, isOpen: boolean][] = [
    ["rich-1", `account/${rich}`, 1_000n, true],
    ["rich-2", `account/${rich}`, 100n, true],
    ["rich-closed", `account/${rich}`, 50n, false],
    ["rich-jwt", `jwt/${rich}`, 80n, true],
    ["poor-1", `account/${poor}`, 100n, true],
    ["poor-month", month, 60n, true],
  ];
  for (const [id, budget, granted, isOpen] of leases)
    await world.pool.query(
      `insert into lease (lease_id, budget_id, replica_id, replica_epoch, granted, expires_at, closed_at)
       values ($1, $2, 'r', 1, $3, now() + interval '1 day', $4)`,
      [`${id}${run}`, budget, granted * tokenPrice, isOpen ? null : new Date()],
    );
}

const leasesOf = {
  rich: [["rich-1"], ["rich-2"], ["rich-1", "rich-jwt"], ["rich-closed"], ["rich-1", "rich-2"], ["unknown"], []],
  poor: [["poor-1"], ["poor-1", "poor-month"], []],
  free: [["rich-1"], []],
} as const;

interface Fact {
  readonly account: (typeof accounts)[number];
  readonly leases: number;
  readonly request: number;
  readonly attempt: number;
  readonly output: number;
  readonly hold: number;
  readonly isCounted: boolean;
}
const fact: fc.Arbitrary<Fact> = fc.record({
  account: fc.constantFrom("rich", "rich", ...accounts),
  leases: fc.constantFrom(0, 0, 0, 0, 1, 2, 3, 4, 5, 6),
  request: fc.nat({ max: 60 }),
  attempt: fc.constantFrom(1, 1, 1, 1, 1, 2),
  output: fc.integer({ min: 0, max: 30 }),
  hold: fc.constantFrom(0, 5, 40, 40, 40, 40, 40),
  isCounted: fc.constantFrom(false, false, false, false, true),
});
/** What most groups are: a payer with room, nothing broken. */
const easy = fact.map((one) => ({
  ...one,
  account: "rich" as const,
  leases: 0,
  attempt: 1,
  hold: 40,
  isCounted: false,
}));
const group = fc.oneof(
  fc.array(easy, { minLength: 1, maxLength: 4 }),
  fc.array(fact, { minLength: 1, maxLength: 5 }),
  fc.array(fc.oneof(easy, fact), { minLength: 2, maxLength: 6 }),
);

function recordOf(one: Fact, run: number): SettledRecord {
  const choices: readonly (readonly string[])[] = leasesOf[one.account];
  const account = `${one.account}${run}` as AccountId;
  // All attempts of a request come by one key: the account's own, a session's (none), or one that nobody knows.
  const key = ["k-unknown", ""][one.request % 8] ?? `k-${account}`;
  const tokens = { input: 3, output: one.output };
  const wire = usageRecord(account, tokens, {
    requestId: `${account}-${one.request}`,
    attempt: one.attempt,
    admittedAtMs: String(now + one.request),
    endedAtMs: String(now + one.request + 7),
    keyId: key,
    leaseIds: (choices[one.leases % choices.length] ?? []).map((lease) => `${lease}${run}`),
    holdNanoUsd: String(BigInt(one.hold) * tokenPrice),
    discountId: one.output % 3 === 0 ? "d1" : "",
  });
  return readRecord(wire, claimedTicket(wire));
}

/** Everything that money is made of, less what time and chance put there. */
async function booksOf(world: World) {
  const { rows: usage } = await world.pool.query(
    "select to_jsonb(usage) - 'settled_at' as row from usage order by request_id, attempt",
  );
  const { rows: ledger } = await world.pool.query(
    `select request_id, attempt, book, account_id, key_id, model, price_version, discount_id, sum(amount) from ledger_entry
     group by 1, 2, 3, 4, 5, 6, 7, 8 having sum(amount) <> 0 order by 1, 2, 3`,
  );
  const { rows: budgets } = await world.pool.query("select budget_id, lim, spent, leased from budget order by 1");
  const { rows: leases } = await world.pool.query(
    "select lease_id, granted, settled, closed_at is null from lease order by 1",
  );
  const { rows: months } = await world.pool.query("select * from usage_month order by 1, 2, 3, 4, 5, 6");
  return { usage: usage.map(({ row }) => row), ledger, budgets, leases, months };
}

const day = 86_400_000;
const ofMonths = (world: World, account: AccountId) =>
  monthLines(world.db, account, monthOf(Date.now() - day), monthOf(Date.now() + day));

it(
  "ends in the same usage, ledger, budgets and leases as the long way, for any groups of records",
  async () => {
    const [one, other] = [await openWorld(postgres), await openWorld(postgres)];
    const long = createSettlementStore(other.db, false);
    let short = 0;
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(group, { minLength: 3, maxLength: 9 }), async (groups) => {
        run += 1;
        await Promise.all([seed(one, run), seed(other, run)]);
        for (const facts of groups) {
          const unique = new Map(
            facts.map((it) => recordOf(it, run)).map((it) => [`${it.requestId}/${it.attempt}`, it]),
          );
          // Where two compete for the same room, the order decides; the short way goes first.
          const records = [...unique.values()].sort((a, b) => Number(isPlain(b)) - Number(isPlain(a)));
          const counts = facts
            .filter((it) => it.isCounted)
            .map((it) => recordOf(it, run))
            .map(({ requestId, account, hold }) => ({
              ...{ requestId, account, hold },
              attempt: 1,
              outputTokens: 2,
              leaseIds: [] as LeaseId[],
            }));
          for (const store of [one.settlementStore, long])
            if (counts.length > 0) await store.settle({ records: [], counts }, moneyRules);
          const settled = await one.settlementStore.settle({ records, counts: [] }, moneyRules);
          if (!settled.postings) short += 1;
          expect((await long.settle({ records, counts: [] }, moneyRules)).fresh).toEqual(settled.fresh);
        }
        expect(await booksOf(one)).toEqual(await booksOf(other));
        for (const name of accounts)
          expect(await ofMonths(one, `${name}${run}` as AccountId)).toEqual(
            await ledgerLines(one.db, `${name}${run}` as AccountId, Date.now() - day, Date.now() + day),
          );
      }),
      { numRuns: longer(25, 300), endOnFailure: true },
    );
    expect(short).toBeGreaterThan(20);
  },
  longer(60_000, 1_200_000),
);

it.each([
  ["in one group, the first plain by itself", 0, [["first", "second", "other"]]],
  ["one after the other, on leases of their own", 1, [["first"], ["second"]]],
  ["one after the other, beside another record on the first one's lease", 2, [["first"], ["second", "other"]]],
] as const)("settles two attempts of one request alike both ways: %s", async (_, n, groups) => {
  const [one, other] = [await openWorld(postgres), await openWorld(postgres)];
  const easyFact: Fact = {
    account: "rich",
    leases: 1,
    request: 60,
    attempt: 1,
    output: 29,
    hold: 40,
    isCounted: false,
  };
  const facts = {
    first: easyFact,
    second: { ...easyFact, leases: 0, attempt: 2, output: 5 },
    other: { ...easyFact, request: 59 },
  };
  await Promise.all([seed(one, n), seed(other, n)]);
  for (const names of groups) {
    const records = names.map((name) => recordOf(facts[name], n));
    await one.settlementStore.settle({ records, counts: [] }, moneyRules);
    await createSettlementStore(other.db, false).settle({ records, counts: [] }, moneyRules);
  }
  const books = await booksOf(one);
  expect(books).toEqual(await booksOf(other));
  // Of the lease that the first lay on only what the other record took.
  const taken = groups.flat().filter((name) => name === "other").length * 32;
  expect(books.leases.find((lease) => lease.lease_id === `rich-2${n}`)?.settled).toBe(BigInt(taken) * tokenPrice);
});

it("takes what is plain, says no to all else, and writes nothing then", async () => {
  const world = await openWorld(postgres);
  await seed(world, 0);
  await createSettlementStore(world.db).ensureMoneyMonths(new Date(now));
  const easyFact: Fact = { account: "rich", leases: 0, request: 0, attempt: 1, output: 10, hold: 40, isCounted: false };
  const plain = (request: number, more: Partial<Fact> = {}) => recordOf({ ...easyFact, request, ...more }, 0);
  // Months are made at their first use.
  await world.settlementStore.settle({ records: [plain(2)], counts: [] }, moneyRules);
  const take = (...records: SettledRecord[]) => settlePlain(world.db, records, moneyRules.months);
  expect(await take(plain(3), plain(4, { leases: 2 }))).toBe(true);
  const before = await booksOf(world);
  expect(await take(plain(3), plain(5))).toBe(false);
  expect(await take(plain(5), plain(6, { leases: 3 }))).toBe(false);
  expect(await take(plain(5, { leases: 4 }))).toBe(false);
  expect(await take(plain(5, { leases: 5 }))).toBe(false);
  expect(await take(plain(5, { account: "poor", leases: 1 }))).toBe(false);
  // Room for seven of thirteen tokens, not for eight.
  expect(await take(...Array.from({ length: 8 }, (_, i) => plain(10 + 8 * i + 2, { leases: 1 })))).toBe(false);
  expect(await booksOf(world)).toEqual(before);
  expect(await take(...Array.from({ length: 7 }, (_, i) => plain(10 + 8 * i + 2, { leases: 1 })))).toBe(true);
  expect((await checkBooks(world.db)).doubleCaptures).toEqual(wholeBooks.doubleCaptures);
});
