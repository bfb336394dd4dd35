// A price that was set ahead of time holds from its second on, though the catalogue is read anew every ten seconds alone.
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { createPriceBook } from "../../../control-plane/billing/price-book.ts";
import { createDirectory } from "../../../control-plane/catalog/directory.ts";
import { createCatalogStore } from "../../../control-plane/store/models/catalog-store.ts";
import { createPriceStore } from "../../../control-plane/store/money/price-store.ts";
import { refreshOn } from "../../../control-plane/wiring/refresh-loop.ts";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld } from "./world.ts";

/** Prices and when they begin. So far apart that a machine that stands still for a moment sees both, and far from the next reading of all. */
const steps = [
  [2n, 2_000],
  [3n, 5_000],
] as const;
let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

it("a model's next price takes effect at its second, and the one after it too", async () => {
  const world = await openWorld(postgres);
  const account = await world.account(0n);
  const catalog = createCatalogStore(world.db);
  const deployId = "deployment" as DeploymentId;
  await world.db
    .insertInto("deployment")
    .values({
      deployId: deployId,
      accountId: account,
      modelName: "org/model",
      version: "1",
      task: "text-generation",
      type: "llm",
      engine: "stoker",
      status: "deployed",
      gpu: "other",
      numGpus: 1,
      maxBatchSize: 1,
      minInstances: 1,
      maxInstances: 1,
      weights: "{}",
      weightsToken: null,
      extraArgs: [],
      externalUrl: null,
      contextLength: 1024,
      memoryBytes: 0n,
      pendingReasons: "[]",
    })
    .execute();
  const rates = { input: nano(1n), cachedInput: nano(1n), output: nano(1n) };
  await catalog.offer({ name: "org/model", deployId, description: "", rates });
  const prices = createPriceBook({ store: createPriceStore(world.db) });
  const startMs = Date.now();
  for (const [rate, afterMs] of steps) {
    const request = {
      kind: "model",
      subject: "org/model",
      rates: { input: rate },
      effectiveFromMs: startMs + afterMs,
    } as const;
    await prices.set(request, { by: "u:op", ip: "", note: "" });
  }
  const directory = createDirectory(catalog);
  await directory.refresh();
  const stopping = new AbortController();
  // No pushed change comes when a price takes effect.
  const loop = refreshOn({ on: () => {} }, ["price"], {
    what: "models",
    refresh: directory.refresh,
    everyMs: 10_000,
    untilStaleMs: () => directory.untilNextPriceMs,
    log,
  }).run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await loop;
  });
  const rate = () => directory.resolve("org/model", "u:anybody" as AccountId)?.rates.input;
  expect(rate()).toBe(1n);
  for (const [expected, afterMs] of steps) {
    await expect.poll(rate, { timeout: 30_000, interval: 5 }).toBe(expected);
    const lateMs = Date.now() - startMs - afterMs;
    expect(lateMs).toBeGreaterThanOrEqual(-5);
    expect(lateMs).toBeLessThan(2_500);
  }
});
