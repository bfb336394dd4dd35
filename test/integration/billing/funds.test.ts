import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createFunds } from "../../../control-plane/billing/funds.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { createFundsStore } from "../../../control-plane/store/money/funds-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld, tokenPrice, usageRecord, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const grantOf = (account: AccountId, amount: bigint, reference: string, kind: "credit" | "correction" = "credit") => ({
  account,
  amount,
  kind,
  note: "goodwill",
  reference,
});

describe("a credit", () => {
  it("raises what the account may spend, stands in the ledger and the audit log, and wakes the replicas", async () => {
    const world = await openWorld(postgres);
    const funds = createFunds({ store: createFundsStore(world.db) });
    const account = await world.account(usd);
    const granted = await funds.grantCredit(grantOf(account, 2n * usd, "r1"), {
      by: "u:op",
      ip: "192.0.2.1",
      note: "",
    });
    expect(granted).toEqual({ isNew: true, funds: { limit: 3n * usd, spent: 0n, leased: 0n } });
    expect(await world.budget(account)).toMatchObject({ limit: 3n * usd });
    const { rows: entries } = await world.pool.query(
      "select amount, kind, note from ledger_entry where book = 'customer_available' order by amount",
    );
    expect(entries).toEqual([
      { amount: usd, kind: "credit", note: null },
      { amount: 2n * usd, kind: "credit", note: "goodwill" },
    ]);
    const { rows: audit } = await world.pool.query(
      "select actor, action, subject, ip, before, after from audit where action = 'credit.grant'",
    );
    expect(audit).toEqual([
      {
        actor: "u:op",
        action: "credit.grant",
        subject: account,
        ip: "192.0.2.1",
        before: { limit: String(usd), spent: "0" },
        after: { limit: String(3n * usd), spent: "0", amount: String(2n * usd), reference: "r1" },
      },
    ]);
    const { rows: changes } = await world.pool.query("select subject from change where topic = 'limit'");
    expect(changes).toEqual([{ subject: account }]);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("counts once per reference, however often and at how many replicas it is granted", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(0n);
    const funds = createFunds({ store: createFundsStore(world.db) });
    const all = await Promise.all(Array.from({ length: 20 }, () => funds.grantCredit(grantOf(account, usd, "once"))));
    expect(all.filter((granted) => granted.isNew)).toHaveLength(1);
    expect(await world.budget(account)).toMatchObject({ limit: usd });
    const other = await world.account(0n);
    await expect(funds.grantCredit(grantOf(other, usd, "once"))).rejects.toMatchObject({
      code: "credit_reference_taken",
    });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("is taken back by a correction, not below what was spent unless that is said", async () => {
    const world = await openWorld(postgres);
    const funds = createFunds({ store: createFundsStore(world.db) });
    const account = await world.account(100n * tokenPrice);
    await world.settlement.settle([usageRecord(account, { input: 0, output: 60 })], "1");
    const take = (tokens: bigint, reference: string) => grantOf(account, -tokens * tokenPrice, reference, "correction");
    await expect(funds.grantCredit(take(50n, "too-much"))).rejects.toMatchObject({ code: "invalid_credit" });
    expect((await funds.grantCredit(take(40n, "all"))).funds.limit).toBe(60n * tokenPrice);
    const below = await funds.grantCredit({ ...take(10n, "below"), mayGoBelowZero: true });
    expect(below.funds.limit).toBe(50n * tokenPrice);
    await expect(funds.grantCredit({ ...take(-10n, "x"), amount: 0n })).rejects.toMatchObject({
      code: "invalid_credit",
    });
    await expect(funds.grantCredit({ ...take(1n, "y"), kind: "credit" })).rejects.toMatchObject({
      code: "invalid_credit",
    });
    await expect(funds.grantCredit(grantOf("u:nobody" as AccountId, usd, "z"))).rejects.toMatchObject({
      code: "account_not_found",
    });
  });

  it("is refused above USD 9,000,000,000 in all, and changes nothing then", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(0n);
    const funds = createFunds({ store: createFundsStore(world.db) });
    const billion = 1_000_000_000n * usd;
    for (let n = 0; n < 9; n++) await funds.grantCredit(grantOf(account, billion, `billion-${n}`));
    await expect(funds.grantCredit(grantOf(account, billion, "tenth"))).rejects.toMatchObject({
      code: "invalid_credit",
      message: expect.stringContaining("9,000,000,000"),
    });
    expect(await world.budget(account)).toMatchObject({ limit: 9n * billion });
    expect((await funds.grantCredit(grantOf(account, -usd, "less", "correction"))).funds.limit).toBe(
      9n * billion - usd,
    );
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("cannot be changed once it is posted", async () => {
    const world = await openWorld(postgres);
    await world.account(usd);
    await expect(world.pool.query("update ledger_entry set amount = amount * 2")).rejects.toThrow("append only");
    await expect(world.pool.query("delete from ledger_entry")).rejects.toThrow("append only");
  });
});
