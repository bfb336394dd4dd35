// Sealed usage of accounts on a real PostgreSQL, exported and verified.
import { Readable } from "node:stream";
import { invoiceKeySeal } from "../../../control-plane/accounts/seals.ts";
import { createInvoiceKeys } from "../../../control-plane/billing/invoice-keys.ts";
import { monthOf } from "../../../control-plane/billing/period.ts";
import { createUsageSeals } from "../../../control-plane/billing/usage-seals.ts";
import { createInvoiceKeyStore, createUsageSealStore } from "../../../control-plane/store/money/usage-seal-store.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { checkInvoice } from "../../../proto/invoice-check.ts";
import type { TestDatabases } from "../../fakes/postgres.ts";
import { type BillingWorld, openBillingWorld } from "./billing-world.ts";
import { log } from "./world.ts";

export const nextMonth = () => Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth() + 1, 1, 4);

export async function openSeals(postgres: TestDatabases) {
  const world = await openBillingWorld(postgres);
  /** One more control plane. Records are sealed as soon as they are settled. */
  const makeSeals = (items = 1_000, settledAfterMs = 0, minAgeMs = 0) => {
    const keys = createInvoiceKeys({ store: createInvoiceKeyStore(world.db), seal: invoiceKeySeal(world.secrets) });
    const store = createUsageSealStore(world.db, { settledAfterMs, correctionPage: 3 });
    return { keys, store, ...createUsageSeals({ store, keys, log, items, minAgeMs, clock: world.clock }) };
  };
  const seals = makeSeals();
  const month = monthOf(Date.now());
  const exported = async (account: AccountId, of = month): Promise<string> => {
    let text = "";
    for await (const piece of await seals.export(account, of)) text += piece;
    return text;
  };
  const price = await world.db
    .insertInto("price")
    .values({ kind: "model", subject: "acme/model", inputRate: 1_500n, cachedInputRate: 400n, outputRate: 3_777n })
    .returning("priceVersion")
    .executeTakeFirstOrThrow();
  return { ...world, makeSeals, seals, month, exported, priceVersion: price.priceVersion };
}
export type SealsWorld = Awaited<ReturnType<typeof openSeals>>;

/** Terms that follow from the price. */
export const priced = ({ priceVersion }: SealsWorld) => ({
  priceVersion: String(priceVersion),
  inputRate: "1500",
  cachedInputRate: "400",
  outputRate: "3777",
});

export const settle = (
  { settlement }: BillingWorld,
  ...records: Parameters<BillingWorld["settlement"]["settle"]>[0][number][]
) => settlement.settle(records, "1");

/** Some tests export an earlier month that was never closed. */
export const verdictOf = (text: string, keys: readonly string[] = []) =>
  checkInvoice(Readable.from([Buffer.from(text)]), { keys, isOpenAllowed: true });
export const publicKeys = async ({ seals }: SealsWorld) => (await seals.keys.list()).map(({ publicKey }) => publicKey);

export async function closeMonth(world: SealsWorld): Promise<void> {
  world.setClock(nextMonth());
  await world.billing.closeMonths();
}
