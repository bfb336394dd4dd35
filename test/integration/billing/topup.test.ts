import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createAccountStatus } from "../../../control-plane/billing/account-status.ts";
import type { AccountStatusStore } from "../../../control-plane/billing/store.ts";
import { createManualPayments } from "../../../control-plane/payments/manual.ts";
import { createAccountStatusStore } from "../../../control-plane/store/money/account-status-store.ts";
import { createChargeStore } from "../../../control-plane/store/money/charge-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type BillingWorld, by, openBillingWorld, spend, usd } from "./billing-world.ts";
import { log } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

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
    await world.billing.updateStatuses();
    expect(world.provider.asked).toEqual([]);
    await spend(world, account, 6n * usd);
    const other = world.make();
    await Promise.all([world.billing.updateStatuses(), other.updateStatuses(), world.billing.updateStatuses()]);
    expect(world.provider.asked).toMatchObject([{ account, amountCents: 2000, purpose: "topup" }]);
    expect(await limitOf(world, account)).toBe(30n * usd);
    await world.billing.updateStatuses();
    expect(world.provider.asked).toHaveLength(1);
  });

  it("is not charged again by a replica whose view of the funds is from before the first charge ended", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    await spend(world, account, 6n * usd);
    const store = createAccountStatusStore(world.db);
    const late: AccountStatusStore = {
      stale: store.stale,
      async update(...args) {
        const books = await store.update(...args);
        await world.billing.updateStatuses();
        return books;
      },
    };
    const { charges } = world.make();
    await createAccountStatus({ store: late, charges, minDue: 1n, log, clock: world.clock }).update(account);
    expect(world.provider.asked).toHaveLength(1);
    expect(await limitOf(world, account)).toBe(30n * usd);
  });

  it("without a card on file stops, and says nothing of the card", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "nothing";
    await spend(world, account, 6n * usd);
    await world.billing.updateStatuses();
    await world.billing.updateStatuses();
    expect(world.provider.asked).toHaveLength(1);
    expect(await world.reasons(account)).toEqual([]);
    expect(await world.checklist(account)).toMatchObject({ hasPaymentMethod: false, topup: { hasFailed: true } });
    world.provider.outcome = "paid";
    const news = { kind: "on_file", customer: `cus_${account}` };
    await world.billing.paying.takeEvent(Buffer.from(JSON.stringify({ id: "evt_5", kind: "x", news })), "");
    expect(await limitOf(world, account)).toBe(30n * usd);
  });

  it("of less than the provider takes is refused", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    const topup = { isOn: true, amount: (usd * 49n) / 100n, threshold: usd };
    await expect(world.billing.paying.setTopup(account, topup, by)).rejects.toMatchObject({ code: "topup_refused" });
  });

  it("that is pending is looked up from then on, not made again", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "pending";
    await spend(world, account, 6n * usd);
    await world.billing.updateStatuses();
    const id = (await world.charges(account))[0]?.chargeId ?? "";
    for (const outcome of ["pending", "paid"] as const) {
      world.provider.outcome = outcome;
      await world.pool.query("update charge set claimed_until = now() - interval '1 second'");
      await world.billing.updateStatuses();
    }
    expect(world.provider.asked).toHaveLength(1);
    expect(world.provider.lookedUp).toEqual([`pi_of_${id}`, `pi_of_${id}`]);
    expect(await world.charges(account)).toMatchObject([{ state: "done", reference: `pi_of_${id}` }]);
    expect(await limitOf(world, account)).toBe(30n * usd);
  });

  it("whose answer nobody heard for a day is looked for at the provider, and never ordered a second time", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "lost";
    await spend(world, account, 6n * usd);
    await world.billing.updateStatuses();
    expect(await world.charges(account)).toMatchObject([{ state: "charging", reference: null }]);
    world.provider.outcome = "paid";
    world.setClock(Date.now() + 25 * 3_600_000);
    await world.pool.query("update charge set claimed_until = now() - interval '1 second'");
    await world.billing.updateStatuses();
    expect(world.provider.asked).toHaveLength(1);
    expect(await world.charges(account)).toMatchObject([{ state: "done", reference: "pi_1" }]);
    expect(await limitOf(world, account)).toBe(30n * usd);
  });

  it("that the provider never made ends after a day without a mark, and the next one is another charge", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "away";
    await spend(world, account, 6n * usd);
    await world.billing.updateStatuses();
    world.provider.outcome = "paid";
    world.setClock(Date.now() + 25 * 3_600_000);
    await world.pool.query("update charge set claimed_until = now() - interval '1 second'");
    for (const [pass, states] of [
      ["0 minutes", ["failed"]],
      ["59 minutes", ["failed"]],
      ["2 minutes", ["failed", "done"]],
    ] as const) {
      await world.pool.query(`update charge set ended_at = ended_at - interval '${pass}' where state = 'failed'`);
      await world.billing.updateStatuses();
      expect((await world.charges(account)).map((charge) => charge.state)).toEqual(states);
    }
    expect(world.provider.payments.size).toBe(1);
    expect(await world.checklist(account)).toMatchObject({ topup: { hasFailed: false } });
    expect(await limitOf(world, account)).toBe(30n * usd);
  });

  it("that stays pending is given up after 30 days, and counts if it is paid after all", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "pending";
    await spend(world, account, 6n * usd);
    await world.billing.updateStatuses();
    const [charge] = await world.charges(account);
    const day = 24 * 3_600_000;
    for (const [days, state] of [
      [29, "charging"],
      [31, "failed"],
    ] as const) {
      world.setClock(Date.now() + days * day);
      await world.pool.query("update charge set claimed_until = now() - interval '1 second'");
      await world.billing.charges.resume();
      expect((await world.charges(account))[0]?.state).toBe(state);
    }
    expect(await world.checklist(account)).toMatchObject({ topup: { hasFailed: false } });
    const paymentId = `pi_of_${charge?.chargeId}`;
    const news = { kind: "paid", account, amountCents: 2000, paymentId, chargeId: charge?.chargeId };
    await world.billing.paying.takeEvent(Buffer.from(JSON.stringify({ id: "evt_9", kind: "x", news })), "");
    expect((await world.charges(account))[0]).toMatchObject({ state: "done", reference: paymentId });
    expect(await limitOf(world, account)).toBe(30n * usd);
  });

  it("under manual of another amount takes the place of the one that waits, under a number of its own", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    const manual = world.make(createManualPayments());
    expect(await manual.paying.addFunds(account, 700, "")).toBeNull();
    const [first] = await manual.charges.requests();
    await manual.paying.addFunds(account, 700, "");
    expect(await manual.charges.requests()).toEqual([first]);
    await manual.paying.addFunds(account, 5_000, "");
    const waiting = await manual.charges.requests();
    expect(waiting).toMatchObject([{ account, amount: 50n * usd, state: "requested" }]);
    // What the operator read is what is decided on.
    await expect(manual.charges.fulfil(first?.id ?? "", by)).rejects.toMatchObject({ code: "topup_request_ended" });
    await manual.charges.fulfil(waiting[0]?.id ?? "", by);
    expect(await limitOf(world, account)).toBe(51n * usd);
  });

  it("under manual of another amount replaces the one before or leaves it, never neither", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    const manual = world.make(createManualPayments());
    await manual.paying.addFunds(account, 700, "");
    // A crash in the middle of it: the database refuses the new row.
    await world.pool.query("alter table charge add constraint no_fifty check (amount <> 50000000000)");
    await expect(manual.paying.addFunds(account, 5_000, "")).rejects.toThrow(/no_fifty/);
    expect(await manual.charges.requests()).toMatchObject([{ amount: 7n * usd, state: "requested" }]);
    await world.pool.query("alter table charge drop constraint no_fifty");
    await Promise.all([5_000, 6_000, 7_000].map((cents) => manual.paying.addFunds(account, cents, "")));
    expect(await manual.charges.requests()).toHaveLength(1);
  });

  it("that is rejected while it is fulfilled is either, never credited and failed", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    const manual = world.make(createManualPayments());
    await manual.paying.addFunds(account, 700, "");
    const id = (await manual.charges.requests())[0]?.id ?? "";
    const store = createChargeStore(world.db);
    const found = await store.find(id);
    if (!found) throw new Error("no charge");
    await manual.charges.reject(id, by);
    // As of a replica that read the request before the rejection.
    const grant = { account, amount: found.amount, kind: "topup", reference: `manual/${id}`, note: "" } as const;
    expect(await store.fulfil(found, grant, by)).toBe(false);
    expect(await limitOf(world, account)).toBe(usd);
    expect(await world.charges(account)).toMatchObject([{ state: "failed" }]);
  });

  it("takes the money once though nobody heard the provider's yes", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "lost";
    await spend(world, account, 6n * usd);
    await world.billing.updateStatuses();
    expect(await limitOf(world, account)).toBe(10n * usd);
    world.provider.outcome = "paid";
    await world.pool.query("update charge set claimed_until = now() - interval '1 second'");
    await Promise.all([world.billing.updateStatuses(), world.make().updateStatuses()]);
    expect(world.provider.payments.size).toBe(1);
    expect(await limitOf(world, account)).toBe(30n * usd);
    expect((await world.charges(account)).map((row) => row.state)).toEqual(["done"]);
  });

  it("that is declined says so, suspends for the card, asks no more, and a payment lifts it", async () => {
    const world = await openBillingWorld(postgres);
    const account = await withTopup(world);
    world.provider.outcome = "declined";
    await spend(world, account, 6n * usd);
    await world.billing.updateStatuses();
    await world.billing.updateStatuses();
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
    await world.billing.updateStatuses();
    const [charge] = await world.charges(account);
    const chargeId = charge?.chargeId ?? "";
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
    await Promise.all([manual.updateStatuses(), manual.updateStatuses()]);
    await manual.updateStatuses();
    const requests = await manual.charges.requests();
    expect(requests).toMatchObject([{ account, amount: 20n * usd, state: "requested" }]);
    const id = requests[0]?.id ?? "";
    const outcomes = await Promise.allSettled([manual.charges.fulfil(id, by), manual.charges.fulfil(id, by)]);
    expect(outcomes.some(({ status }) => status === "fulfilled")).toBe(true);
    await expect(manual.charges.fulfil(id, by)).rejects.toMatchObject({ code: "topup_request_ended" });
    expect(await limitOf(world, account)).toBe(30n * usd);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });
});

describe("payments of an account", () => {
  const paymentsOf = async (world: BillingWorld, account: AccountId, limit = 10) =>
    (await world.billing.charges.payments(account, limit)).map(({ kind, amount, state, why }) => ({
      ...{ kind, amount, state },
      ...(why === "" ? {} : { why }),
    }));

  const gift = { amount: 2n * usd, kind: "credit", note: "", reference: "gift" } as const;
  const credited = { kind: "credit", amount: 2n * usd, state: "done" };

  it("show a request that waits for the operator, then its credit, and only once", async () => {
    const world = await openBillingWorld(postgres);
    const manual = world.make(createManualPayments());
    const account = await world.account(10n * usd);
    const other = await world.account(10n * usd);
    await manual.paying.addFunds(account, 500, "https://stoker.example/billing");
    await world.billing.funds.grantCredit({ ...gift, account }, by);
    expect(await paymentsOf(world, account)).toEqual([
      credited,
      { kind: "topup", amount: 5n * usd, state: "requested" },
    ]);
    expect(await paymentsOf(world, other)).toEqual([]);
    const [waiting] = await manual.charges.requests();
    await manual.charges.fulfil(waiting?.id as string, by);
    expect(await paymentsOf(world, account)).toEqual([{ kind: "topup", amount: 5n * usd, state: "done" }, credited]);
    expect(await paymentsOf(world, account, 1)).toHaveLength(1);
  });

  it("show why a request was rejected, and a payment on the provider's page", async () => {
    const world = await openBillingWorld(postgres);
    const manual = world.make(createManualPayments());
    const account = await world.account(10n * usd);
    await manual.paying.addFunds(account, 500, "https://stoker.example/billing");
    const [waiting] = await manual.charges.requests();
    await manual.charges.reject(waiting?.id as string, { ...by, note: "no transfer arrived" });
    const news = { kind: "paid", account, amountCents: 700, paymentId: "pi_9", chargeId: undefined };
    await world.billing.paying.takeEvent(Buffer.from(JSON.stringify({ id: "evt_9", kind: "x", news })), "");
    expect(await paymentsOf(world, account)).toEqual([
      { kind: "topup", amount: 7n * usd, state: "done" },
      { kind: "topup", amount: 5n * usd, state: "failed", why: "no transfer arrived" },
    ]);
  });
});
