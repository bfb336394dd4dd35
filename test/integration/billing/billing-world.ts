// An account with everything that happens to its money, over a scripted payment provider and a clock that tests set.
import { randomBytes } from "node:crypto";
import { invoiceKeySeal } from "../../../control-plane/accounts/seals.ts";
import type { AlertMail } from "../../../control-plane/billing/limit-alerts.ts";
import type {
  ChargeOrder,
  ChargeOutcome,
  PaymentEvent,
  PaymentProvider,
} from "../../../control-plane/billing/payments.ts";
import { createBilling } from "../../../control-plane/wiring/billing.ts";
import type { AccountId } from "../../../proto/ids.ts";
import type { TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, usageRecord } from "./world.ts";

export const usd = 1_000_000_000n;
export const by = { by: "u:operator", ip: "127.0.0.1", note: "test" };

/** Takes money as Stripe does: the same charge id is the same payment. */
export class FakeProvider implements PaymentProvider {
  readonly name = "stripe";
  readonly minCents = 50;
  readonly payments = new Map<string, string>();
  readonly asked: ChargeOrder[] = [];
  readonly lookedUp: string[] = [];
  found = { hasPaymentMethod: true, hasBillingAddress: true };
  /** What the next charges come to. */
  outcome: "paid" | "declined" | "pending" | "nothing" | "lost" | "away" = "paid";
  openCustomer = (account: string) => Promise.resolve(`cus_${account}`);
  portal = () => Promise.resolve("https://provider.example/portal");
  checkout = () => Promise.resolve("https://provider.example/pay");
  onFile = () => Promise.resolve(this.found);
  readEvent(body: Buffer): PaymentEvent {
    return JSON.parse(body.toString()) as PaymentEvent;
  }
  charge(order: ChargeOrder): Promise<ChargeOutcome> {
    this.asked.push(order);
    if (this.outcome === "away") return Promise.reject(new Error("connect ECONNREFUSED"));
    if (this.outcome === "declined") return Promise.resolve({ kind: "declined", why: "card_declined" });
    if (this.outcome === "pending") return Promise.resolve({ kind: "pending", paymentId: `pi_of_${order.chargeId}` });
    if (this.outcome === "nothing") return Promise.resolve({ kind: "nothing_on_file" });
    const paymentId = this.payments.get(order.chargeId) ?? `pi_${this.payments.size + 1}`;
    this.payments.set(order.chargeId, paymentId);
    // The money is taken, and nobody hears of it.
    if (this.outcome === "lost") return Promise.reject(new Error("socket hang up"));
    return Promise.resolve({ kind: "paid", paymentId });
  }
  find({ chargeId }: ChargeOrder): Promise<ChargeOutcome | undefined> {
    const paymentId = this.payments.get(chargeId);
    return Promise.resolve(paymentId === undefined ? undefined : { kind: "paid", paymentId });
  }
  outcomeOf(paymentId: string): Promise<ChargeOutcome> {
    this.lookedUp.push(paymentId);
    return Promise.resolve({ kind: this.outcome === "paid" ? "paid" : "pending", paymentId });
  }
}

/** Tokens cost a thousand nano-USD: a million of them a thousandth of a dollar. */
export const spend = (world: BillingWorld, account: AccountId, nanoUsd: bigint) =>
  world.settlement.settle(
    [usageRecord(account, { input: 0, output: Number(nanoUsd / 1000n) }, { holdNanoUsd: String(nanoUsd) })],
    "1",
  );

export type BillingWorld = Awaited<ReturnType<typeof openBillingWorld>>;

export async function openBillingWorld(postgres: TestDatabases) {
  const world = await openWorld(postgres);
  const provider = new FakeProvider();
  let nowMs = Date.now();
  const clock = { unixMs: () => nowMs, monotonicMs: () => nowMs };
  const make = (other: PaymentProvider = provider, mail?: AlertMail) =>
    createBilling({
      db: world.db,
      provider: other,
      invoiceLinkKey: randomBytes(32),
      invoiceKeySeal: invoiceKeySeal(world.secrets),
      mail,
      log,
      clock,
    });
  return {
    ...world,
    provider,
    clock,
    billing: make(),
    /** Another replica. */
    make,
    setClock: (at: number) => {
      nowMs = at;
    },
    checklist: async (account: Parameters<ReturnType<typeof make>["updateStatus"]>[0]) => {
      const report = await make().checklists.read(account, true);
      if (!report) throw new Error("no checklist");
      return report;
    },
    async reasons(account: AccountId): Promise<string[]> {
      const rows = await world.db
        .selectFrom("accountSuspension")
        .select("reason")
        .where("accountId", "=", account)
        .orderBy("reason")
        .execute();
      return rows.map((row) => row.reason);
    },
    async charges(account: AccountId) {
      return world.db.selectFrom("charge").selectAll().where("accountId", "=", account).orderBy("createdAt").execute();
    },
    /** Moves what was posted since to another time, as if the database's clock had said so. */
    async postedAt(account: string, at: Date): Promise<void> {
      const client = await world.pool.connect();
      try {
        await client.query("set session_replication_role = replica");
        await client.query(
          "update ledger_entry set posted_at = $1 where account_id = $2 and posted_at > now() - interval '1 hour'",
          [at, account],
        );
        await client.query(
          "update usage set settled_at = $1 where account_id = $2 and settled_at > now() - interval '1 hour'",
          [at, account],
        );
        await client.query("select rebuild_usage_days()");
      } finally {
        await client.query("set session_replication_role = default");
        client.release();
      }
    },
  };
}
