// Alerts of monthly limits on a real database, with several control planes and a real receiver.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { createProjects } from "../../../control-plane/accounts/projects.ts";
import { createLimitAlerts } from "../../../control-plane/billing/limit-alerts.ts";
import { keyMonthBudget, projectMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { createProfileStore } from "../../../control-plane/store/accounts/profile-store.ts";
import { createProjectStore } from "../../../control-plane/store/accounts/project-store.ts";
import { createLimitAlertStore } from "../../../control-plane/store/money/limit-alert-store.ts";
import { createWebhookDeliveryStore } from "../../../control-plane/store/work/webhook-delivery-store.ts";
import type { AccountId, KeyId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { verified } from "../../fakes/webhook-receiver.ts";
import { openWebhooks } from "../webhooks/world.ts";
import { type BillingWorld, by, openBillingWorld, usd } from "./billing-world.ts";
import { patience, usageRecord } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const target = { url: "https://example.com/alerts", host: "example.com" };
const percentsOf = async (world: BillingWorld, account: AccountId) =>
  (await world.billing.limitAlerts.list(account, 100)).map(({ percent }) => percent).reverse();

/** With a monthly limit of USD 10. */
async function limited(world: BillingWorld): Promise<AccountId> {
  const account = await world.account(1000n * usd);
  await world.billing.limits.setAccount(account, 10n * usd, by);
  return account;
}

async function spendBy(world: BillingWorld, account: AccountId, nanoUsd: bigint, keyId?: KeyId): Promise<void> {
  const terms = { holdNanoUsd: String(nanoUsd), admittedAtMs: String(world.clock.unixMs()), ...(keyId && { keyId }) };
  await world.settlement.settle([usageRecord(account, { input: 0, output: Number(nanoUsd / 1000n) }, terms)], "1");
}

describe("an alert of the account's limit", () => {
  it("is raised at 50, 80 and 100 %, each once, with control planes that check at the same time", async () => {
    const world = await openBillingWorld(postgres);
    const account = await limited(world);
    const watch = () => Promise.all([1, 2, 3].map(() => world.make().limitAlerts.watch()));
    await spendBy(world, account, 4n * usd);
    await watch();
    expect(await percentsOf(world, account)).toEqual([]);
    await spendBy(world, account, usd);
    await watch();
    expect(await percentsOf(world, account)).toEqual([50]);
    await spendBy(world, account, 3n * usd + usd / 2n);
    await watch();
    await watch();
    expect(await percentsOf(world, account)).toEqual([50, 80]);
    // What a limit leaves over may be too little for any request: the last half percent counts.
    await spendBy(world, account, usd + (46n * usd) / 100n);
    await watch();
    expect(await percentsOf(world, account)).toEqual([50, 80, 100]);
    expect((await world.billing.limitAlerts.list(account, 1))[0]).toMatchObject({
      of: null,
      percent: 100,
      limit: 10n * usd,
      spent: 9n * usd + (96n * usd) / 100n,
    });
  });

  it("is raised again for a changed limit and in the next month, and never for one of 0 or none", async () => {
    const world = await openBillingWorld(postgres);
    const account = await limited(world);
    await spendBy(world, account, 5n * usd);
    await world.billing.limitAlerts.watch();
    await world.billing.limits.setAccount(account, 20n * usd, by);
    await world.billing.limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([50]);
    await spendBy(world, account, 5n * usd);
    await world.billing.limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([50, 50]);
    for (const limit of [0n, null]) {
      await world.billing.limits.setAccount(account, limit, by);
      await world.billing.limitAlerts.watch();
      expect(await percentsOf(world, account)).toEqual([50, 50]);
    }
    await world.billing.limits.setAccount(account, 20n * usd, by);
    const now = new Date();
    world.setClock(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 2));
    await world.billing.limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([50, 50]);
    await spendBy(world, account, 16n * usd);
    await world.billing.limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([50, 50, 50, 80]);
  });

  it("waits for none of its calls: without a URL it is recorded and calls nobody", async () => {
    const world = await openBillingWorld(postgres);
    const account = await limited(world);
    const other = await limited(world);
    await world.billing.paying.setAlertTarget(other, target, by);
    await spendBy(world, account, 6n * usd);
    await world.billing.limitAlerts.watch();
    expect(await world.billing.limitAlerts.list(account, 10)).toMatchObject([{ percent: 50, webhookId: null }]);
    expect(await world.billing.limitAlerts.list(other, 10)).toEqual([]);
    expect(await createWebhookDeliveryStore(world.db).deliveries(account, undefined, 10)).toEqual([]);
  });

  it("leaves neither a record nor a call when its transaction fails, and is raised by the next check", async () => {
    const world = await openBillingWorld(postgres);
    const account = await limited(world);
    await world.billing.paying.setAlertTarget(account, target, by);
    await spendBy(world, account, 10n * usd);
    let calls = 0;
    const broken = createLimitAlerts({
      store: createLimitAlertStore(world.db),
      mail: undefined,
      makeWebhookId: () => {
        calls += 1;
        if (calls === 3) throw new Error("killed between two alerts");
        return `msg_${calls}`;
      },
    });
    await expect(broken.watch()).rejects.toThrow("killed");
    expect(await percentsOf(world, account)).toEqual([]);
    await world.make().limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([50, 80, 100]);
    const calling = await createWebhookDeliveryStore(world.db).deliveries(account, undefined, 10);
    expect(calling).toMatchObject(Array(3).fill({ event: "limit.alert", state: "pending" }));
  });

  it("goes with its account, and with it the URL", async () => {
    const world = await openBillingWorld(postgres);
    const account = await limited(world);
    await world.billing.paying.setAlertTarget(account, target, by);
    await world.billing.paying.setInvoiceAddress(account, "1 Main Street", by);
    await spendBy(world, account, 6n * usd);
    await world.billing.limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([50]);
    await createProfileStore(world.db).end({ account, ip: "" });
    expect(await percentsOf(world, account)).toEqual([]);
    expect(await world.billing.paying.settings(account)).toEqual({
      alertUrl: null,
      alertMail: true,
      invoiceAddress: "",
    });
    await world.billing.limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([]);
  });
});

describe("an alert of a key's limit", () => {
  it("names the key, and is not raised once the key is revoked", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(1000n * usd);
    const key = await world.keyOf(account);
    await world.billing.limits.setKey(account, key, 4n * usd, by);
    await spendBy(world, account, 2n * usd, key);
    await world.billing.limitAlerts.watch();
    const [alert] = await world.billing.limitAlerts.list(account, 10);
    expect(alert).toMatchObject({
      of: { scope: "key", id: key, name: "auto" },
      percent: 50,
      limit: 4n * usd,
      spent: 2n * usd,
    });
    expect(await world.budgetRow(keyMonthBudget(key, world.clock.unixMs()))).toMatchObject({ spent: 2n * usd });
    await spendBy(world, account, 2n * usd, key);
    await world.pool.query("update api_key set revoked_at = now() where token_id = $1", [key]);
    await world.billing.limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([50]);
  });
});

describe("an alert of a project's limit", () => {
  it("counts the keys of the project together, names it, and is not raised once it has ended", async () => {
    const world = await openBillingWorld(postgres);
    const [account, other] = [await world.account(1000n * usd), await world.account(1000n * usd)];
    const projects = createProjects({ store: createProjectStore(world.db), monthOf: projectMonthBudget });
    const { project } = await projects.create(account, "search", 4n * usd, by);
    await projects.create(other, "idle", 4n * usd, by);
    const spend = async (nanoUsd: bigint) => {
      const month = projectMonthBudget(project, world.clock.unixMs());
      await world.pool.query(
        `insert into budget (budget_id, scope, account_id, lim, spent) values ($1, 'project_month', $2, $3, $4)
           on conflict (budget_id) do update set spent = budget.spent + $4`,
        [month, account, 4n * usd, nanoUsd],
      );
    };
    await spend(2n * usd);
    await Promise.all([world.billing.limitAlerts.watch(), world.make().limitAlerts.watch()]);
    expect(await world.billing.limitAlerts.list(account, 10)).toMatchObject([
      { of: { scope: "project", id: project, name: "search" }, percent: 50, limit: 4n * usd, spent: 2n * usd },
    ]);
    expect(await percentsOf(world, other)).toEqual([]);
    await projects.end(account, project, by);
    await spend(2n * usd);
    await world.billing.limitAlerts.watch();
    expect(await percentsOf(world, account)).toEqual([50]);
  });
});

describe("the call of an alert", () => {
  it("is signed, names account and amounts, and is a delivery that can be read and replayed", async () => {
    const webhooks = await openWebhooks(postgres);
    const account = await webhooks.account(100n * usd);
    const billing = await openBillingWorld({ migratedDatabase: async () => webhooks.url } as TestDatabases);
    const to = await webhooks.check(`${webhooks.receiver.origin}/alerts`);
    await billing.billing.paying.setAlertTarget(account, to, by);
    await billing.billing.limits.setAccount(account, 10n * usd, by);
    await spendBy(billing, account, 8n * usd);
    await Promise.all([billing.billing.limitAlerts.watch(), billing.make().limitAlerts.watch()]);
    await vi.waitFor(() => expect(webhooks.receiver.calls).toHaveLength(2), patience);
    const { secret } = await webhooks.secret(account);
    const bodies = webhooks.receiver.calls.map((call) => verified(secret, call as never)) as { percent: number }[];
    expect(bodies.toSorted((a, b) => a.percent - b.percent)).toMatchObject([
      { event: "limit.alert", scope: "account", token_id: null, percent: 50, limit: 10, spend: 8 },
      { event: "limit.alert", percent: 80 },
    ]);
    const { deliveries } = await vi.waitFor(async () => {
      const found = await webhooks.deliveries(account, undefined, 10);
      expect(found.deliveries.map(({ state }) => state)).toEqual(["delivered", "delivered"]);
      return found;
    }, patience);
    const id = deliveries[0]?.webhookId as string;
    await webhooks.replay({ account, ip: "" }, id);
    await vi.waitFor(() => expect(webhooks.receiver.calls.filter((call) => call.id === id)).toHaveLength(2), patience);
    expect((await webhooks.delivery(account, id)).delivery).toMatchObject({
      event: "limit.alert",
      requestId: id,
      error: null,
    });
  });
});

describe("an invoice's buyer", () => {
  it("is what the account said when its month closed, also after a change", async () => {
    const world = await openBillingWorld(postgres);
    const account = await world.account(100n * usd);
    await world.billing.paying.setInvoiceAddress(account, "1 Main Street\nLondon", by);
    await world.pool.query("update account set company = 'Engines Ltd' where account_id = $1", [account]);
    const now = new Date();
    const month = (offset: number, day: number) => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + offset, day, 6);
    await spendBy(world, account, 2n * usd);
    world.setClock(month(1, 1));
    await world.billing.closeMonths();
    const { invoices } = await world.billing.invoices.list(account, 10, undefined);
    const id = invoices[0]?.id as string;
    await world.billing.paying.setInvoiceAddress(account, "2 Side Street", by);
    await world.pool.query("update account set company = 'Other Ltd' where account_id = $1", [account]);
    expect((await world.billing.invoices.read(account, id)).buyer).toEqual({
      name: "Engines Ltd",
      email: "a1@example.com",
      address: "1 Main Street\nLondon",
    });
    // Closed by a version that kept no buyer.
    await world.pool.query(
      "insert into invoice (invoice_id, account_id, month, total, due_at) values ('inv_old', $1, 24240, 0, now())",
      [account],
    );
    expect((await world.billing.invoices.read(account, "inv_old")).buyer).toMatchObject({
      name: "Other Ltd",
      address: "2 Side Street",
    });
  });
});
