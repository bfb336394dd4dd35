import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDiscounts } from "../../../control-plane/billing/discounts.ts";
import { createPriceBook } from "../../../control-plane/billing/price-book.ts";
import { createPriceStore } from "../../../control-plane/store/money/price-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const by = { by: "u:op", ip: "192.0.2.1", note: "" };

describe("the price book", () => {
  it("keeps every version, knows which one holds, and lets a later one take effect by itself", async () => {
    const world = await openWorld(postgres);
    let nowMs = Date.now();
    const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
    const prices = createPriceBook({ store: createPriceStore(world.db), clock });
    const first = await prices.set({ kind: "gpu", subject: "A100-80GB", rates: { hour: 890_000_000n } }, by);
    const later = await prices.set(
      { kind: "gpu", subject: "A100-80GB", rates: { hour: 790_000_000n }, effectiveFromMs: nowMs + 3_600_000 },
      by,
    );
    const current = async () => (await prices.list({ kind: "gpu" })).find((price) => price.isCurrent)?.version;
    expect(await current()).toBe(first.version);
    nowMs += 3_600_000;
    expect(await current()).toBe(later.version);
    expect(await prices.list()).toHaveLength(2);
    const { rows } = await world.pool.query(
      "select action, subject, before->'rates'->>'hour' as before from audit order by 1",
    );
    expect(rows).toEqual([
      { action: "price.set", subject: "gpu/A100-80GB", before: null },
      { action: "price.set", subject: "gpu/A100-80GB", before: "890000000" },
    ]);
    await expect(world.pool.query("update price set hour_rate = 1")).rejects.toThrow("append only");
  });

  it("keeps the prices of service tiers, of models only", async () => {
    const world = await openWorld(postgres);
    const prices = createPriceBook({ store: createPriceStore(world.db) });
    const model = { kind: "model", subject: "org/model", rates: { input: 100n } } as const;
    expect(await prices.set({ ...model, tiers: { priority: 250, flex: 50 } })).toMatchObject({
      tiers: { priority: 250, flex: 50 },
    });
    expect(await prices.set(model)).toMatchObject({ tiers: { priority: 100, flex: 100 } });
    const gpu = { kind: "gpu", subject: "A100-80GB", rates: { hour: 1n } } as const;
    for (const refused of [
      { ...gpu, tiers: { flex: 50 } },
      { ...model, tiers: { flex: 10_001 } },
      { ...model, tiers: { priority: -1 } },
    ])
      await expect(prices.set(refused)).rejects.toMatchObject({ code: "invalid_price" });
    // The names of tiers on bills are no discounts of the operator.
    expect(await createDiscounts({ store: createPriceStore(world.db) }).list()).toEqual([]);
  });

  it("refuses what would change the past or has the wrong units", async () => {
    const world = await openWorld(postgres);
    const prices = createPriceBook({ store: createPriceStore(world.db) });
    const set = (rates: object, more: object = {}) =>
      prices.set({ kind: "model", subject: "org/model", rates, ...more } as Parameters<typeof prices.set>[0]);
    await expect(set({ input: 1n }, { effectiveFromMs: Date.now() - 120_000 })).rejects.toMatchObject({
      code: "invalid_price",
    });
    await expect(set({ hour: 1n })).rejects.toMatchObject({ code: "invalid_price" });
    await expect(set({ input: -1n })).rejects.toMatchObject({ code: "invalid_price" });
    await expect(set({ input: 1n }, { kind: "gpu" })).rejects.toMatchObject({ code: "invalid_price" });
    await expect(set({ input: 1n }, { subject: "" })).rejects.toMatchObject({ code: "invalid_price" });
    expect(await prices.list()).toEqual([]);
  });
});

describe("discounts", () => {
  const request = (change: object = {}) => ({
    name: "Launch",
    text: "half off",
    basisPoints: 5_000,
    account: null,
    model: null,
    surface: null,
    effectiveToMs: null,
    ...change,
  });

  it("are found in memory where they match, until they end", async () => {
    const world = await openWorld(postgres);
    const account = await world.account(0n);
    const discounts = createDiscounts({ store: createPriceStore(world.db) });
    const made = await discounts.create(request({ account, surface: "chat" }), by);
    await discounts.refresh();
    const use = { account, model: "org/model", surface: "chat" };
    expect(discounts.find(use, Date.now())?.id).toBe(made.id);
    expect(discounts.find({ ...use, surface: "text_completion" }, Date.now())).toBeUndefined();
    await discounts.end(made.id, by);
    await discounts.refresh();
    expect(discounts.find(use, Date.now())).toBeUndefined();
    expect(await discounts.list()).toHaveLength(1);
    await expect(discounts.end(made.id, by)).rejects.toMatchObject({ code: "discount_not_found" });
  });

  it("are refused above the whole price, without a name, for nobody, or ending before they begin", async () => {
    const world = await openWorld(postgres);
    const discounts = createDiscounts({ store: createPriceStore(world.db) });
    for (const bad of [
      { basisPoints: 10_001 },
      { basisPoints: 0 },
      { name: "" },
      { account: "u:nobody" as AccountId },
      { effectiveToMs: 1 },
    ])
      await expect(discounts.create(request(bad))).rejects.toMatchObject({ code: "invalid_discount" });
  });
});
