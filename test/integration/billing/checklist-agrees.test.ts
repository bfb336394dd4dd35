// What a checklist says of an account whose requests get 402 because a little money is left, too little for any of them.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { InsufficientFunds } from "../../../control-plane/billing/hold.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type BillingWorld, by, openBillingWorld, spend, usd } from "./billing-world.ts";
import { ask, handClock, usageRecord } from "./world.ts";

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
const reasonOf = async (world: BillingWorld, account: AccountId) => (await world.checklist(account)).suspendReason;

describe("the checklist of an account with little money", () => {
  it("shows balance once a request gets 402, at every replica, and nothing after a top-up, when requests fit", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(1_000n);
    const replicas = [await world.replica(), await world.replica()] as const;
    expect(await reasonOf(world, account)).toBeNull();
    await expect(replicas[0].hold(ask(account, 5_000n, 2_000n))).rejects.toThrow(InsufficientFunds);
    expect(await reasonOf(world, account)).toBe("balance");
    await expect(replicas[1].hold(ask(account, 5_000n, 2_000n))).rejects.toThrow(InsufficientFunds);
    // A round of the judge suspends nobody for it, because a shorter request still fits.
    await world.billing.updateStatuses();
    expect(await world.reasons(account)).toEqual([]);
    // Too small a top-up changes neither.
    await credit(world, account, 500n, "small");
    replicas[0].recall(account);
    await expect(replicas[0].hold(ask(account, 5_000n, 2_000n))).rejects.toThrow(InsufficientFunds);
    expect(await reasonOf(world, account)).toBe("balance");
    await credit(world, account, usd, "large");
    expect(await reasonOf(world, account)).toBeNull();
    for (const replica of replicas) {
      replica.recall(account);
      expect((await replica.hold(ask(account, 5_000n, 2_000n))).amount).toBe(5_000n);
    }
    expect(await reasonOf(world, account)).toBeNull();
  });

  it("shows nothing again once a shorter request is admitted", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(1_000n);
    const [first, second] = [await world.replica(), await world.replica()];
    await expect(first.hold(ask(account, 5_000n, 2_000n))).rejects.toThrow(InsufficientFunds);
    expect(await reasonOf(world, account)).toBe("balance");
    expect((await second.hold(ask(account, 300n))).amount).toBe(300n);
    expect(await reasonOf(world, account)).toBeNull();
  });

  it("shows balance while running requests hold the rest, until their money is free again", async () => {
    const world = await openBillingWorld(postgres);
    const clock = handClock();
    const account = await world.account(1_000n);
    const replica = await world.replica({ clock });
    const running = await replica.hold(ask(account, 900n));
    await expect(replica.hold(ask(account, 200n))).rejects.toThrow(InsufficientFunds);
    expect(await reasonOf(world, account)).toBe("balance");
    running.release();
    for (let round = 0; round < 2; round++) {
      clock.pass(10_001);
      await replica.tick();
    }
    expect(await reasonOf(world, account)).toBeNull();
    expect((await replica.hold(ask(account, 200n))).amount).toBe(200n);
  });

  it("shows balance when requests have spent the funds down to less than the next one needs", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(10_500n);
    const replica = await world.replica();
    const request = ask(account, 20_000n, 4_000n);
    const hold = await replica.hold(request);
    expect(hold.amount).toBe(10_500n);
    const terms = { requestId: request.requestId, leaseIds: [...hold.leaseIds], holdNanoUsd: String(hold.amount) };
    const record = usageRecord(account, { input: 0, output: 7 }, terms);
    hold.awaitRecord();
    await world.settlement.settle([record], "1");
    await replica.tick();
    await expect(replica.hold(ask(account, 20_000n, 4_000n))).rejects.toThrow(InsufficientFunds);
    expect(await world.budget(account)).toMatchObject({ limit: 10_500n, spent: 7_000n });
    expect(await reasonOf(world, account)).toBe("balance");
  });

  it("shows limit-reached where the rest of the monthly limit is too small, until the limit is raised", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(10n * usd);
    await world.billing.limits.setAccount(account, 2n * usd, by);
    await spend(world, account, 2n * usd - 1_000n);
    const replica = await world.replica();
    const limited = { ...ask(account, 5_000n), spending: { hasAccountLimit: true, hasKeyLimit: false, token: null } };
    await expect(replica.hold(limited)).rejects.toThrow(/monthly limit is used up/);
    expect(await reasonOf(world, account)).toBe("limit-reached");
    await world.billing.limits.setAccount(account, 3n * usd, by);
    expect(await reasonOf(world, account)).toBeNull();
    replica.recall(account);
    expect((await replica.hold({ ...limited, ...{ requestId: ask(account, 1n).requestId } })).amount).toBe(5_000n);
  });

  it("shows nothing for the limit of a scoped token, which is not the account's", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(usd);
    const replica = await world.replica();
    const token = { budget: "jwt/0000" as never, limit: 1_000n };
    const request = { ...ask(account, 5_000n), spending: { hasAccountLimit: false, hasKeyLimit: false, token } };
    await expect(replica.hold(request)).rejects.toThrow(/scoped token's spending limit/);
    expect(await reasonOf(world, account)).toBeNull();
  });
});
