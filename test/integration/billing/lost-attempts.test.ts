import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDeliveredCounts } from "../../../control-plane/billing/delivered-counts.ts";
import { createLostAttempts } from "../../../control-plane/billing/lost-attempts.ts";
import type { DeliveredCount, LostAttempt } from "../../../control-plane/billing/store.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import {
  type AccountId,
  type DeploymentId,
  type HostId,
  type InstanceId,
  type KeyId,
  type ReplicaId,
  randomId,
} from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { testHost } from "../../fakes/seals.ts";
import { ask, handClock, log, openWorld, patience, tokenPrice, usageRecord, type World, wholeBooks } from "./world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const usd = 1_000_000_000n;
const perMillion = 1_000_000n * tokenPrice;

async function world() {
  const opened = await openWorld(postgres);
  const clock = handClock();
  const { unrecorded: store, settlementStore: settlement, metrics } = opened;
  const make = () => createLostAttempts({ store, settlement, log, metrics, clock });
  const look = make();
  await look.round();
  return {
    ...opened,
    clock,
    make,
    look,
    counts: createDeliveredCounts({ store: settlement, counts: store, log, metrics }),
    /** Everything that waits is this much older. */
    async age(interval: string) {
      await opened.pool.query(`update delivered_count set at = at - interval '${interval}'`);
    },
    async host(id: string, silent: string) {
      await opened.pool.query(
        `insert into host (host_id, hostname, advertise, inventory, node_epoch, ticket_key, condition, agent_version, seen_at)
         values ($1, $1, '', '{}', 1, '', '', '', now() - $2::interval) on conflict (host_id) do update set seen_at = excluded.seen_at`,
        [id, silent],
      );
    },
  };
}

function count(account: AccountId, host: string, outputTokens: number, hasLost = true): DeliveredCount {
  const lost: LostAttempt = {
    host: host as HostId,
    key: "key" as KeyId,
    replica: "replica" as ReplicaId,
    model: "acme/model",
    deployId: "deployment" as DeploymentId,
    instanceId: "instance" as InstanceId,
    admittedAtMs: Date.now(),
    brokeAtMs: Date.now(),
    inputTokens: 10,
    rates: { input: nano(perMillion), cachedInput: nano(perMillion), output: nano(perMillion) },
    priceVersion: 1n,
    discountId: null,
  };
  const requestId = randomId<"request">(24);
  const base = { requestId, attempt: 1, account, outputTokens, leaseIds: [], hold: nano(usd) };
  return hasLost ? { ...base, lost } : base;
}

const standing = async (world: World) =>
  (await world.pool.query("select 1 from delivered_count where resolved_at is null")).rowCount;

describe("a delivered count whose record never comes", () => {
  it("bills what was delivered once the host has been lost for a minute, and a late record changes no bill", async () => {
    const w = await world();
    const account = await w.account(usd);
    await w.host("gone", "2 minutes");
    const sent = count(account, "gone", 40);
    const untouched = count(account, "gone", 0);
    w.counts.report(sent, "broken");
    w.counts.report(untouched, "broken");
    await w.counts.stop();
    expect(await standing(w)).toBe(2);
    w.clock.pass(60_000);
    await w.look.round();
    expect(await w.budget(account), "it is younger than a minute").toMatchObject({ spent: 0n });
    await w.age("61 seconds");
    await w.look.round();
    // Nothing delivered is nothing billed, its prompt included.
    expect(await w.budget(account)).toMatchObject({ spent: 50n * tokenPrice });
    expect(await standing(w)).toBe(0);
    const late = usageRecord(account, { input: 10, output: 500 }, { requestId: sent.requestId });
    const admittedAtMs = String(sent.lost?.admittedAtMs);
    expect(await w.settlement.settle([{ ...late, admittedAtMs }], "1")).toEqual([late.spoolId]);
    expect(await w.budget(account)).toMatchObject({ spent: 50n * tokenPrice });
    expect(await checkBooks(w.db)).toEqual(wholeBooks);
  });

  it("bills what was delivered a minute after the host came back with another agent, which has no record of it", async () => {
    const w = await world();
    const account = await w.account(usd);
    await w.host("restarted", "1 second");
    const minutesAgo = (minutes: number) => Date.now() - minutes * 60_000;
    const cut = count(account, "restarted", 40);
    const later = count(account, "restarted", 70);
    for (const one of [{ ...cut, lost: { ...(cut.lost as LostAttempt), brokeAtMs: minutesAgo(5) } }, later])
      w.counts.report(one, "broken");
    await w.counts.stop();
    await w.age("2 minutes");
    w.clock.pass(60_000);
    await w.pool.query("update host set run_began_at = now() - interval '30 seconds'");
    await w.look.round();
    expect(await standing(w), "it may still be sending").toBe(2);
    await w.pool.query("update host set run_began_at = now() - interval '61 seconds'");
    await w.look.round();
    // The agent that runs now began before the other one broke off, and will tell of it.
    expect(await standing(w)).toBe(1);
    expect(await w.budget(account)).toMatchObject({ spent: 50n * tokenPrice });
    expect(await checkBooks(w.db)).toEqual(wholeBooks);
  });

  it.each([0, 40])(
    "bills the prompt by one rule with and without a start row (%i tokens delivered)",
    async (tokens) => {
      const w = await world();
      const account = await w.account(usd);
      const other = await w.account(usd);
      await w.host("gone", "2 minutes");
      const withoutRow = count(account, "gone", tokens);
      const withRow = count(other, "gone", tokens);
      w.counts.report(withoutRow, "broken");
      w.counts.report(withRow, "broken");
      await w.counts.stop();
      const { requestId, lost } = withRow;
      const startRow = { requestId, admittedAtMs: String(lost?.admittedAtMs), endReason: "lost" };
      const record = usageRecord(other, { input: 10, output: 0 }, { ...startRow, source: "estimated" });
      expect(await w.settlement.settle([record], "1")).toEqual([record.spoolId]);
      await w.age("61 seconds");
      w.clock.pass(60_000);
      await w.look.round();
      const spent = tokens === 0 ? 0n : BigInt(10 + tokens) * tokenPrice;
      expect(await w.budget(account)).toMatchObject({ spent });
      expect(await w.budget(other)).toMatchObject({ spent });
      expect(await checkBooks(w.db)).toEqual(wholeBooks);
    },
  );

  it.each(["before", "after"] as const)(
    "costs nothing where nothing was delivered, although its record comes %s the count with all figures",
    async (when) => {
      const w = await world();
      const account = await w.account(usd);
      await w.host("full", "1 second");
      const withheld = count(account, "full", 0);
      const { requestId, lost } = withheld;
      const record = usageRecord(
        account,
        { input: 10, output: 60 },
        { requestId, admittedAtMs: String(lost?.admittedAtMs) },
      );
      if (when === "before") await w.settlement.settle([record], "1");
      w.counts.report(withheld, "broken");
      await w.counts.stop();
      if (when === "after") await w.settlement.settle([record], "1");
      expect(await w.budget(account)).toMatchObject({ spent: 0n });
      expect(await checkBooks(w.db)).toEqual(wholeBooks);
    },
  );

  it("bills the figures that the gateway saw when the agent lost its state with the record", async () => {
    const w = await world();
    const account = await w.account(usd);
    await w.host("emptied", "1 second");
    const clock = handClock();
    const budgets = await w.replica({ clock });
    const request = ask(account, 1_000n * tokenPrice);
    const hold = await budgets.hold(request);
    const base = count(account, "emptied", 40);
    const lost = { ...(base.lost as LostAttempt), inputTokens: 25, cachedInputTokens: 5 };
    const seen = { ...base, requestId: request.requestId, leaseIds: hold.leaseIds, hold: hold.amount, lost };
    hold.settle(nano(65n * tokenPrice), 1, () => w.counts.report(seen, "overdue"));
    clock.pass(29_000);
    await budgets.tick();
    expect(await standing(w), "the record may still be on its way").toBe(0);
    clock.pass(1_000);
    await budgets.tick();
    await budgets.tick();
    await w.counts.stop();
    expect(await standing(w)).toBe(1);
    await w.age("2 minutes");
    w.clock.pass(60_000);
    await w.pool.query(`update host set run_began_at = now() - interval '61 seconds'`);
    await w.pool.query("update delivered_count set lost = jsonb_set(lost, '{brokeAtMs}', '1000')");
    await w.look.round();
    expect(await w.budget(account)).toMatchObject({ spent: 65n * tokenPrice });
    expect(await checkBooks(w.db)).toEqual(wholeBooks);
    await budgets.stop();
  });

  it("waits while its host lives, and while this control plane has not listened for a minute itself", async () => {
    const w = await world();
    const account = await w.account(usd);
    await w.host("alive", "1 second");
    await w.host("gone", "1 hour");
    for (const host of ["alive", "gone"]) w.counts.report(count(account, host, 40), "broken");
    await w.counts.stop();
    expect(await standing(w)).toBe(2);
    await w.age("1 hour");
    const fresh = w.make();
    await fresh.round();
    w.clock.pass(59_000);
    await fresh.round();
    expect(await standing(w)).toBe(2);
    w.clock.pass(1_000);
    await fresh.round();
    expect(await standing(w)).toBe(1);
    expect(await w.budget(account)).toMatchObject({ spent: 50n * tokenPrice });
  });

  it("is released after a day, once, in the customer's favour, with a metric and an audit row", async () => {
    const w = await world();
    const account = await w.account(usd);
    await w.host("alive", "1 second");
    const sent = [count(account, "alive", 40), count(account, "gone", 40, false)];
    for (const one of sent) w.counts.report(one, "broken");
    await w.counts.stop();
    expect(await standing(w)).toBe(2);
    w.clock.pass(60_000);
    await w.age("23 hours");
    await w.look.round();
    expect(await standing(w)).toBe(2);
    await w.age("1 hour");
    await Promise.all([w.look.round(), w.look.round()]);
    expect(await standing(w)).toBe(0);
    const { rows } = await w.pool.query("select subject, account_id from audit where action = 'usage.release'");
    expect(rows.map((row) => row.subject).sort()).toEqual(sent.map((one) => `${one.requestId}/1`).sort());
    expect(rows.every((row) => row.account_id === account)).toBe(true);
    expect(await w.registry.metrics()).toContain('stoker_unrecorded_released_total{what="attempt"} 2');
    expect(await w.budget(account)).toMatchObject({ spent: 0n });
    expect(await checkBooks(w.db)).toEqual(wholeBooks);
  });
});

describe("one count that PostgreSQL will not take", () => {
  it("does not hold up the others of its group", async () => {
    const w = await world();
    const account = await w.account(usd);
    const poisoned = { ...count(account, "gone", 40), requestId: "nul\0" as DeliveredCount["requestId"] };
    const good = [1, 2, 3].map((tokens) => count(account, "gone", tokens));
    for (const one of [poisoned, ...good]) w.counts.report(one, "broken");
    await expect.poll(() => standing(w), patience).toBe(3);
    await w.counts.stop();
  });
});

describe("a usage record that can never become money", () => {
  it("goes into quarantine once, is acknowledged and counted, and the others of its batch are settled", async () => {
    const w = await world();
    const account = await w.account(usd);
    const unreadable = usageRecord(account, { input: 1, output: 1 }, { endReason: "never" });
    const refused = usageRecord(account, { input: 1, output: 1 }, { model: "nul\0" });
    const nameless = [1, 2].map(() => usageRecord(account, { input: 1, output: 1 }, { requestId: "" }));
    const timeless = usageRecord(account, { input: 1, output: 1 }, { admittedAtMs: "9000000000000000" });
    const good = usageRecord(account, { input: 1, output: 1 });
    const all = [unreadable, refused, ...nameless, timeless, good];
    const ids = all.map((record) => record.spoolId).sort();
    for (let round = 0; round < 2; round++) expect((await w.settlement.settle(all, "1")).sort()).toEqual(ids);
    const { rows } = await w.pool.query(
      "select request_id, host_id, problem, why, record from usage_quarantine order by quarantine_id",
    );
    expect(rows).toHaveLength(5);
    expect(rows.find((row) => row.request_id === unreadable.requestId)).toMatchObject({
      host_id: testHost,
      problem: "malformed",
      why: "usage record with endReason never",
      record: JSON.stringify(unreadable),
    });
    expect(rows.find((row) => row.request_id === refused.requestId)).toMatchObject({ problem: "refused_value" });
    expect(rows.find((row) => row.request_id === timeless.requestId)).toMatchObject({
      why: "usage record with admittedAtMs 9000000000000000",
    });
    expect(await w.registry.metrics()).toContain('stoker_usage_events_total{result="quarantined"}');
    expect(await w.budget(account)).toMatchObject({ spent: 2n * tokenPrice });
    expect(await checkBooks(w.db)).toEqual(wholeBooks);
  });
});
