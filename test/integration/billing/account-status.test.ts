import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createAccountStatus } from "../../../control-plane/billing/account-status.ts";
import { monthOf, monthStartMs } from "../../../control-plane/billing/period.ts";
import type { AccountStatusStore } from "../../../control-plane/billing/store.ts";
import { createAccountStatusStore } from "../../../control-plane/store/money/account-status-store.ts";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type BillingWorld, by, openBillingWorld, spend, usd } from "./billing-world.ts";
import { log, usageRecord } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const credit = (world: BillingWorld, account: AccountId, amount: bigint, reference: string) =>
  world.billing.funds.grantCredit(
    { account, amount, kind: "credit", reference, note: "" },
    { by: "x", ip: "", note: "" },
  );

describe("an account's standing", () => {
  it("is suspended for its balance when the funds are used up, and lifted by the credit itself", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    await spend(world, account, usd);
    // The checklist says so with the first refused request, before a round of the judge writes it down.
    expect(await world.checklist(account)).toMatchObject({ suspendReason: "balance" });
    await world.billing.updateStatuses();
    expect(await world.reasons(account)).toEqual(["balance"]);
    expect(await world.checklist(account)).toMatchObject({ suspendReason: "balance", recent: usd });
    await credit(world, account, usd, "c1");
    expect(await world.reasons(account)).toEqual([]);
    expect((await world.checklist(account)).suspendReason).toBeNull();
  });

  it("is limit-reached at its monthly limit, lifted by raising the limit or by the new month", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(10n * usd);
    await world.billing.limits.setAccount(account, 2n * usd, by);
    await spend(world, account, 2n * usd);
    await world.billing.updateStatuses();
    expect(await world.reasons(account)).toEqual(["limit-reached"]);
    await world.billing.limits.setAccount(account, 3n * usd, by);
    expect(await world.reasons(account)).toEqual([]);
    await world.billing.limits.setAccount(account, 2n * usd, by);
    expect(await world.reasons(account)).toEqual(["limit-reached"]);
    const now = new Date(world.clock.unixMs());
    world.setClock(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1));
    await world.billing.updateStatuses();
    expect(await world.reasons(account)).toEqual([]);
  });

  it("is not limit-reached by last month's requests whose records come late", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(10n * usd);
    await world.billing.limits.setAccount(account, 2n * usd, by);
    const lastMonth = String(monthStartMs(monthOf(world.clock.unixMs())) - 1);
    const late = { admittedAtMs: lastMonth, endedAtMs: lastMonth, holdNanoUsd: String(2n * usd) };
    await world.settlement.settle([usageRecord(account, { input: 0, output: 2_000_000 }, late)], "1");
    expect((await world.checklist(account)).recent).toBe(2n * usd);
    expect(await world.reasons(account)).toEqual([]);
  });

  it("needs a payment method where the operator said so, until one is on file", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    await world.billing.paying.addFunds(account, 500, "https://stoker.example/billing");
    const terms = { creditLine: 0n, dueDays: 14, needsPaymentMethod: true };
    await world.billing.paying.setTerms(account, terms, by);
    expect(await world.reasons(account)).toEqual(["payment-method"]);
    const event = {
      id: "evt_1",
      kind: "payment_method.attached",
      news: { kind: "on_file", customer: `cus_${account}` },
    };
    await world.billing.paying.takeEvent(Buffer.from(JSON.stringify(event)), "");
    expect(await world.reasons(account)).toEqual([]);
    expect(await world.checklist(account)).toMatchObject({ hasPaymentMethod: true, hasBillingAddress: true });
  });

  it("is overdue when an invoice is not paid in time, and lifted by the payment", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(0n);
    await world.billing.paying.setTerms(account, { creditLine: 5n * usd, dueDays: 10, needsPaymentMethod: false }, by);
    await spend(world, account, 2n * usd);
    const now = new Date(world.clock.unixMs());
    const next = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1, 6);
    world.setClock(next);
    await world.billing.closeMonths();
    expect(await world.reasons(account)).toEqual([]);
    expect(await world.checklist(account)).toMatchObject({ paymentsBalance: 2n * usd, recent: 0n, overdueInvoices: 0 });
    world.setClock(next + 11 * 86_400_000);
    await world.billing.updateStatuses();
    expect(await world.reasons(account)).toEqual(["overdue-invoices"]);
    expect((await world.checklist(account)).overdueInvoices).toBe(1);
    await credit(world, account, 2n * usd, "paid");
    expect(await world.reasons(account)).toEqual([]);
    const { invoices } = await world.billing.invoices.list(account, 10, undefined);
    expect(invoices.map(({ status, total, amountDue }) => [status, total, amountDue])).toEqual([
      ["paid", 2n * usd, 0n],
    ]);
  });

  /** An account with a credit line, a month with `spent` in it behind it, and what was charged of its invoice. */
  const invoiced = async (world: BillingWorld, spent: bigint, card = true) => {
    const account = await world.account(0n);
    const terms = { creditLine: 50n * usd, dueDays: 10, needsPaymentMethod: false };
    await world.billing.paying.setTerms(account, terms, by);
    if (card) await putCard(world, account);
    await spend(world, account, spent);
    const now = new Date(world.clock.unixMs());
    world.setClock(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1, 6));
    return account;
  };
  const putCard = (world: BillingWorld, account: AccountId) =>
    world.db
      .insertInto("accountBilling")
      .values({ accountId: account, hasPaymentMethod: true, customer: `cus_${account}` })
      .onConflict((conflict) => conflict.column("accountId").doUpdateSet({ hasPaymentMethod: true }))
      .execute();
  const overdueDay = (world: BillingWorld) => world.setClock(world.clock.unixMs() + 11 * 86_400_000);
  const statuses = async (world: BillingWorld, account: AccountId) =>
    (await world.billing.invoices.list(account, 10, undefined)).invoices.map(({ status }) => status);

  it("is not overdue for the fraction of a cent that a charge leaves of an invoice", async () => {
    const world = await openBillingWorld(postgres);
    const account = await invoiced(world, 1_234_567_000n);
    await world.billing.closeMonths();
    expect(world.provider.asked).toMatchObject([{ account, amountCents: 123, purpose: "invoice" }]);
    expect(await statuses(world, account)).toEqual(["paid"]);
    overdueDay(world);
    await world.billing.updateStatuses();
    expect(await world.reasons(account)).toEqual([]);
    expect(world.provider.asked).toHaveLength(1);
  });

  it("is neither charged nor overdue for an invoice below what the provider takes", async () => {
    const world = await openBillingWorld(postgres);
    const account = await invoiced(world, (usd * 49n) / 100n);
    await world.billing.closeMonths();
    overdueDay(world);
    await world.billing.updateStatuses();
    expect(world.provider.asked).toEqual([]);
    expect(await world.reasons(account)).toEqual([]);
    expect(await statuses(world, account)).toEqual(["paid"]);
    expect((await world.checklist(account)).paymentsBalance).toBe((usd * 49n) / 100n);
  });

  it("is charged for its invoices by a later round, where a crash or a missing card kept the first from it", async () => {
    const world = await openBillingWorld(postgres);
    const account = await invoiced(world, 2n * usd, false);
    await world.billing.closeMonths();
    expect(world.provider.asked).toEqual([]);
    await putCard(world, account);
    await Promise.all([world.billing.updateStatuses(), world.make().updateStatuses()]);
    await world.billing.updateStatuses();
    expect(world.provider.asked).toMatchObject([{ account, amountCents: 200, purpose: "invoice" }]);
    expect(await statuses(world, account)).toEqual(["paid"]);
  });

  it("is charged for an invoice once more only after the card that was refused was replaced", async () => {
    const world = await openBillingWorld(postgres);
    const account = await invoiced(world, 2n * usd);
    world.provider.outcome = "declined";
    await world.billing.closeMonths();
    await world.billing.updateStatuses();
    expect(world.provider.asked).toHaveLength(1);
    world.provider.outcome = "paid";
    await world.db.updateTable("accountBilling").set({ cardFailed: false }).execute();
    await world.billing.updateStatuses();
    expect(world.provider.asked).toHaveLength(2);
    expect(await statuses(world, account)).toEqual(["paid"]);
  });

  it("is judged though another account of the round cannot be", async () => {
    const world = await openBillingWorld(postgres);
    const store = createAccountStatusStore(world.db);
    const accounts = [await world.account(usd), await world.account(usd)];
    for (const account of accounts) await spend(world, account, usd);
    const [first] = await store.stale(monthStartMs(monthOf(Date.now())));
    const broken: AccountStatusStore = {
      stale: store.stale,
      update: (account, ...rest) =>
        account === first ? Promise.reject(new Error("broken books")) : store.update(account, ...rest),
    };
    const { charges } = world.billing;
    await createAccountStatus({ store: broken, charges, minDue: 1n, log, clock: world.clock }).updateAll();
    const reasons = await Promise.all(accounts.map(async (one) => [one, await world.reasons(one)]));
    expect(Object.fromEntries(reasons)).toEqual(
      Object.fromEntries(accounts.map((one) => [one, one === first ? [] : ["balance"]])),
    );
  });

  it("leaves alone what an operator decided by hand", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    await world.db
      .insertInto("accountSuspension")
      .values({ accountId: account, reason: "bad-cc", suspendedBy: "u:operator", note: "" })
      .execute();
    await world.billing.updateStatus(account);
    expect(await world.reasons(account)).toEqual(["bad-cc"]);
  });
});

describe("limits and costs", () => {
  it("show what each key may spend and did, and refuse another account's key like an unknown one", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(10n * usd);
    const stranger = await world.account(10n * usd);
    const keyOf = async (owner: AccountId) =>
      (await world.db.selectFrom("apiKey").select("tokenId").where("accountId", "=", owner).executeTakeFirstOrThrow())
        .tokenId as KeyId;
    const key = await keyOf(account);
    await world.settlement.settle([usageRecord(account, { input: 0, output: 500 }, { keyId: key })], "1");
    await world.billing.limits.setKey(account, key, 0n, by);
    expect(await world.billing.limits.ofKeys(account)).toMatchObject([{ key, limit: 0n, spent: 500_000n }]);
    await world.billing.limits.setKey(account, key, null, by);
    expect(await world.billing.limits.ofKeys(account)).toMatchObject([{ key, limit: null }]);
    for (const other of [await keyOf(stranger), "unknown" as KeyId])
      await expect(world.billing.limits.setKey(account, other, 1n, by)).rejects.toMatchObject({
        code: "api_key_not_found",
      });
  });

  it("tell the cost of the account's own requests, by our id or by the caller's own", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(10n * usd);
    const stranger = await world.account(10n * usd);
    const records = [1, 2].map((tokens) => usageRecord(account, { input: 0, output: tokens }));
    const foreign = usageRecord(stranger, { input: 0, output: 3 });
    await world.settlement.settle([...records, foreign], "1");
    const [first, second] = records.map((record) => record.requestId) as [string, string];
    await world.usageStore.saveLabels([
      { requestId: first as never, label: "mine", account },
      { requestId: second as never, label: "mine", account },
    ]);
    const costs = await world.billing.paying.requestCosts(account, [first, foreign.requestId, "mine", "unknown"]);
    expect(Object.fromEntries(costs)).toEqual({ [first]: 1_000n, mine: 3_000n });
  });
});
