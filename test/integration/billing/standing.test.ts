import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createManualPayments } from "../../../control-plane/payments/manual.ts";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { type BillingWorld, by, openBillingWorld, usd } from "./billing-world.ts";
import { usageRecord } from "./world.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** Tokens cost a thousand nano-USD: a million of them a thousandth of a dollar. */
const spend = (world: BillingWorld, account: AccountId, nanoUsd: bigint) =>
  world.settlement.settle(
    [usageRecord(account, { input: 0, output: Number(nanoUsd / 1000n) }, { holdNanoUsd: String(nanoUsd) })],
    "1",
  );
const credit = (world: BillingWorld, account: AccountId, amount: bigint, reference: string) =>
  world.billing.funds.grantCredit({ account, amount, kind: "credit", reference, note: "" }, { actor: "x", ip: "" });

describe("an account's standing", () => {
  it("is suspended for its balance when the funds are used up, and lifted by the credit itself", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    await spend(world, account, usd);
    await world.billing.judgeRound();
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
    await world.billing.judgeRound();
    expect(await world.reasons(account)).toEqual(["limit-reached"]);
    await world.billing.limits.setAccount(account, 3n * usd, by);
    expect(await world.reasons(account)).toEqual([]);
    await world.billing.limits.setAccount(account, 2n * usd, by);
    expect(await world.reasons(account)).toEqual(["limit-reached"]);
    const now = new Date(world.clock.unixMs());
    world.setClock(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1));
    await world.billing.judgeRound();
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
    await world.billing.judgeRound();
    expect(await world.reasons(account)).toEqual(["overdue-invoices"]);
    expect((await world.checklist(account)).overdueInvoices).toBe(1);
    await credit(world, account, 2n * usd, "paid");
    expect(await world.reasons(account)).toEqual([]);
    const { invoices } = await world.billing.invoices.list(account, 10, undefined);
    expect(invoices.map(({ status, total, amountDue }) => [status, total, amountDue])).toEqual([
      ["paid", 2n * usd, 0n],
    ]);
  });

  it("leaves alone what an operator decided by hand", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    await world.db
      .insertInto("account_suspension")
      .values({ account_id: account, reason: "bad-cc", suspended_by: "u:operator", note: "" })
      .execute();
    await world.billing.judge(account);
    expect(await world.reasons(account)).toEqual(["bad-cc"]);
  });
});

describe("a top-up", () => {
  const withTopup = async (world: BillingWorld) => {
    const account = await world.account(10n * usd);
    await world.billing.paying.addFunds(account, 500, "https://stoker.example/billing");
    await world.billing.paying.setTopup(account, { isOn: true, amount: 20n * usd, threshold: 5n * usd }, by);
    return account;
  };
  const limitOf = async (world: BillingWorld, account: AccountId) => (await world.budget(account)).limit;

  it("charges once when the threshold is crossed, with two replicas that see it at once", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    await world.billing.judgeRound();
    expect(world.provider.asked).toEqual([]);
    await spend(world, account, 6n * usd);
    const other = world.make();
    await Promise.all([world.billing.judgeRound(), other.judgeRound(), world.billing.judgeRound()]);
    expect(world.provider.asked).toMatchObject([{ account, amountCents: 2000, purpose: "topup" }]);
    expect(await limitOf(world, account)).toBe(30n * usd);
    await world.billing.judgeRound();
    expect(world.provider.asked).toHaveLength(1);
  });

  it("takes the money once though nobody heard the provider's yes", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "lost";
    await spend(world, account, 6n * usd);
    await world.billing.judgeRound();
    expect(await limitOf(world, account)).toBe(10n * usd);
    world.provider.outcome = "paid";
    await world.pool.query("update charge set claimed_until = now() - interval '1 second'");
    await Promise.all([world.billing.judgeRound(), world.make().judgeRound()]);
    expect(world.provider.payments.size).toBe(1);
    expect(await limitOf(world, account)).toBe(30n * usd);
    expect((await world.charges(account)).map((row) => row.state)).toEqual(["done"]);
  });

  it("that is declined says so, suspends for the card, asks no more, and a payment lifts it", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "declined";
    await spend(world, account, 6n * usd);
    await world.billing.judgeRound();
    await world.billing.judgeRound();
    expect(world.provider.asked).toHaveLength(1);
    expect(await world.reasons(account)).toEqual(["bad-cc"]);
    expect((await world.checklist(account)).topup.hasFailed).toBe(true);
    world.provider.outcome = "paid";
    const paid = { kind: "paid", account, amountCents: 700, paymentId: "pi_by_hand" };
    const event = Buffer.from(JSON.stringify({ id: "evt_2", kind: "payment_intent.succeeded", news: paid }));
    await world.billing.paying.takeEvent(event, "");
    await world.billing.paying.takeEvent(event, "");
    expect(await world.reasons(account)).toEqual([]);
    expect(await limitOf(world, account)).toBe(17n * usd);
  });

  it("that is pending is ended by the event, whichever way and however often it comes", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "pending";
    await spend(world, account, 6n * usd);
    await world.billing.judgeRound();
    const [charge] = await world.charges(account);
    const chargeId = charge?.charge_id ?? "";
    const tell = (id: string, news: object) =>
      world.billing.paying.takeEvent(Buffer.from(JSON.stringify({ id, kind: "x", news })), "");
    await tell("evt_3", { kind: "declined", account, chargeId, why: "processing_error" });
    await tell("evt_4", { kind: "paid", account, amountCents: 2000, paymentId: "pi_9", chargeId });
    await tell("evt_3", { kind: "declined", account, chargeId, why: "processing_error" });
    await tell("evt_4", { kind: "paid", account, amountCents: 2000, paymentId: "pi_9", chargeId });
    expect((await world.charges(account)).map((row) => row.state)).toEqual(["done"]);
    expect(await limitOf(world, account)).toBe(30n * usd);
    expect(await world.reasons(account)).toEqual([]);
  });

  it("under manual opens one request, which the operator fulfils once", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(10n * usd);
    const manual = world.make(createManualPayments());
    await manual.paying.setTopup(account, { isOn: true, amount: 20n * usd, threshold: 5n * usd }, by);
    await spend(world, account, 6n * usd);
    await Promise.all([manual.judgeRound(), manual.judgeRound()]);
    await manual.judgeRound();
    const requests = await manual.charges.requests();
    expect(requests).toMatchObject([{ account, amount: 20n * usd, state: "requested" }]);
    expect(await manual.paying.addFunds(account, 700, "")).toBeNull();
    expect(await manual.charges.requests()).toHaveLength(1);
    const id = requests[0]?.id ?? "";
    const outcomes = await Promise.allSettled([manual.charges.fulfil(id, by), manual.charges.fulfil(id, by)]);
    expect(outcomes.some(({ status }) => status === "fulfilled")).toBe(true);
    await expect(manual.charges.fulfil(id, by)).rejects.toMatchObject({ code: "topup_request_ended" });
    expect(await limitOf(world, account)).toBe(30n * usd);
  });
});

describe("limits and costs", () => {
  it("show what each key may spend and did, and refuse another account's key like an unknown one", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(10n * usd);
    const stranger = await world.account(10n * usd);
    const keyOf = async (owner: AccountId) =>
      (
        await world.db
          .selectFrom("api_key")
          .select("token_id")
          .where("account_id", "=", owner)
          .executeTakeFirstOrThrow()
      ).token_id as KeyId;
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
