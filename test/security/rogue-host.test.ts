// An enrolled host that lies about usage, over a real session and a real database. Its data path was never proven.
import { sql } from "kysely";
import pino from "pino";
import { Registry } from "prom-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { createBillingMetrics } from "../../control-plane/billing/metrics.ts";
import { createQuarantine, maxOpenPerHost } from "../../control-plane/billing/quarantine.ts";
import { monthScopes } from "../../control-plane/billing/scopes.ts";
import { createSettlement, type Settlement } from "../../control-plane/billing/settle.ts";
import { checkBooks } from "../../control-plane/store/core/check-books.ts";
import { createQuarantineStore } from "../../control-plane/store/money/quarantine-store.ts";
import { createSettlementStore } from "../../control-plane/store/money/settlement-store.ts";
import { type AccountId, accountBudget, type HostId } from "../../proto/ids.ts";
import type { Ticket } from "../../proto/ticket.ts";
import type { SpooledRecord } from "../../proto/usage-record.ts";
import { type FakeAgent, startFakeAgent } from "../fakes/agent-session.ts";
import { ticketFor } from "../fakes/data-path.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";
import { recordOf, sealedText, testSeals } from "../fakes/seals.ts";
import { wholeBooks } from "../integration/billing/world.ts";
import { type Replica, startReplica } from "../integration/fleet/replica.ts";

const log = pino({ level: "silent" });
const usd = 1_000_000_000n;
const wait = { timeout: 30_000, interval: 20 };
const victim = "u:victim" as AccountId;

let postgres: TestDatabases;
let replica: Replica;
let registry: Registry;
let rogue: FakeAgent;
let honest: FakeAgent;
let settle: Settlement["settle"];

beforeAll(async () => {
  postgres = await sharedPostgres();
  registry = new Registry();
  const metrics = createBillingMetrics(registry);
  replica = await startReplica(await postgres.migratedDatabase(), {
    settle: (db) => {
      const settlement = createSettlement({
        store: createSettlementStore(db, monthScopes),
        seals: testSeals,
        quarantine: createQuarantine({ store: createQuarantineStore(db), metrics, log }),
        log,
        metrics,
        gatherMs: 0,
      });
      settle = settlement.settle;
      return settle;
    },
  });
  await replica.db
    .insertInto("account")
    .values({
      accountId: victim,
      email: "v@example.com",
      displayName: "v",
      wrappedDek: Buffer.alloc(60),
      kekVersion: 1,
    })
    .execute();
  rogue = await join("rogue");
  honest = await join("honest");
});
afterAll(async () => {
  await Promise.all([rogue?.close(), honest?.close()]);
  await replica?.stop();
  await postgres?.stop();
});
beforeEach(async () => {
  registry.resetMetrics();
  await sql`truncate budget, lease, usage, usage_day, usage_token, ledger_entry, usage_quarantine, usage_quarantine_host cascade`.execute(
    replica.db,
  );
  await replica.db
    .insertInto("budget")
    .values({
      budgetId: accountBudget(victim),
      scope: "account",
      accountId: victim,
      lim: 100n * usd,
      spent: 0n,
      leased: 0n,
    })
    .execute();
});

async function join(hostId: string): Promise<FakeAgent> {
  const agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId });
  agent.connect();
  await vi.waitFor(() => expect(agent.welcome).toBeDefined(), wait);
  return agent;
}

/** What the gateway signed for a request of the victim. USD 1 per thousand tokens, out and in. */
const ticketTo = (host: string, change: Partial<Ticket> = {}): Ticket =>
  ticketFor({
    hostId: host,
    account: victim,
    keyId: "",
    leaseIds: [],
    hold: String(5n * usd),
    maxTokens: 10_000,
    rates: [`${1_000n * usd}`, `${1_000n * usd}`, `${1_000n * usd}`],
    ...change,
  });

const used = (ticket: Ticket, outputTokens: number, change: Partial<SpooledRecord> = {}) =>
  recordOf(ticket, { outputTokens, ...change });

/** Sends records over the session, as an agent does, and waits until they are acknowledged. */
async function send(from: FakeAgent, ...records: SpooledRecord[]): Promise<void> {
  from.send({ body: "usage", usage: { records: JSON.stringify(records) } });
  const ids = records.map((record) => String(record.spoolId));
  await expect.poll(() => ids.filter((id) => !from.acknowledged.includes(id)), wait).toEqual([]);
}

const spent = async () => {
  const row = await replica.db
    .selectFrom("budget")
    .select("spent")
    .where("budgetId", "=", accountBudget(victim))
    .executeTakeFirstOrThrow();
  return row.spent;
};
const quarantined = () =>
  replica.db.selectFrom("usageQuarantine").select(["hostId", "problem", "record"]).orderBy("quarantineId").execute();
const usageRows = () => replica.db.selectFrom("usage").selectAll().orderBy("attempt").execute();

/** The real charge of another host, which every attack must leave as it is. */
async function realCharge(): Promise<Ticket> {
  const ticket = ticketTo("honest");
  await send(honest, used(ticket, 3_000));
  expect(await spent()).toBe(3n * usd);
  return ticket;
}

async function expectOnlyTheRealCharge(): Promise<void> {
  expect(await spent()).toBe(3n * usd);
  expect(await usageRows()).toMatchObject([{ charge: 3n * usd, voided: false }]);
  expect(await checkBooks(replica.db)).toEqual(wholeBooks);
}

describe("a host that bills what it was never sent", () => {
  it.each<[attack: string, problem: string, forge: (real: Ticket) => SpooledRecord]>([
    ["an invented request with no ticket", "unsealed", () => ({ ...used(ticketTo("rogue"), 9_000), ticket: "{}" })],
    [
      "a record of the version before, which names account and rates itself",
      "unsealed",
      () => {
        const { ticket: _, ...record } = used(ticketTo("rogue"), 1);
        return {
          ...record,
          accountId: victim,
          holdNanoUsd: "19000000000",
          outputRate: "19000000000000",
        } as SpooledRecord;
      },
    ],
    [
      "an invented ticket under a key of its own",
      "bad_seal",
      () => ({
        ...used(ticketTo("rogue"), 9_000),
        ticket: sealedText(ticketTo("rogue"), { version: 1, bytes: Buffer.alloc(32, 1) }),
      }),
    ],
    [
      "an invented ticket under the key of its own session",
      "bad_seal",
      () => ({
        ...used(ticketTo("rogue"), 9_000),
        ticket: sealedText(ticketTo("rogue"), { version: 1, bytes: rogue.welcome?.ticketKey as Buffer }),
      }),
    ],
    ["the ticket of another host", "other_host", (real) => used(real, 4_000, { requestId: "another" })],
    [
      "attempt 99 without a charge, to void a real one",
      "bad_seal",
      (real) => ({
        ...used(real, 0),
        attempt: 99,
        ticket: sealedText(real)
          .replace('"attempt":1', '"attempt":99')
          .replace(/"hold":"\d+"/, '"hold":"0"'),
      }),
    ],
    [
      "an attempt of its own making at the real request",
      "unsealed",
      (real) => ({ ...used(real, 0), attempt: 2, ticket: JSON.stringify({ ...real, attempt: 2, hostId: "rogue" }) }),
    ],
  ])("%s: quarantined as %s, and no money moves", async (_, problem, forge) => {
    const real = await realCharge();
    const forged = forge(real);
    await send(rogue, forged);
    expect(await quarantined()).toEqual([{ hostId: "rogue", problem, record: JSON.stringify(forged) }]);
    await expectOnlyTheRealCharge();
    expect(await registry.metrics()).toContain('stoker_usage_events_total{result="quarantined"} 1');
  });

  it.each<[term: string, change: (text: string) => string]>([
    ["account", (text) => text.replace(`"account":"${victim}"`, '"account":"u:ada"')],
    ["rates", (text) => text.replace(/"rates":\["\d+"/, '"rates":["9000000000000"')],
    ["hold", (text) => text.replace(/"hold":"\d+"/, '"hold":"90000000000"')],
    ["attempt", (text) => text.replace('"attempt":1', '"attempt":2')],
    ["host", (text) => text.replace('"hostId":"honest"', '"hostId":"rogue"')],
    ["key", (text) => text.replace('"keyId":""', '"keyId":"k"')],
    ["leases", (text) => text.replace('"leaseIds":[]', '"leaseIds":["l"]')],
    ["admission", (text) => text.replace(/"admittedAtMs":\d/, '"admittedAtMs":3')],
    ["bounds", (text) => text.replace('"maxTokens":10000', '"maxTokens":90000')],
    ["price version", (text) => text.replace('"priceVersion":1', '"priceVersion":2')],
  ])("a sealed ticket with another %s is refused, from whichever host", async (_, change) => {
    const ticket = ticketTo("honest");
    const text = change(sealedText(ticket));
    expect(text).not.toBe(sealedText(ticket));
    const forged = { ...used(ticket, 4_000), ticket: text };
    for (const [epoch, host] of ["rogue", "honest"].entries()) await settle([forged], `${epoch}`, host as HostId);
    expect((await quarantined()).map(({ problem }) => problem)).toEqual(["bad_seal", "bad_seal"]);
    expect(await spent()).toBe(0n);
    expect(await usageRows()).toEqual([]);
  });
});

describe("a host that lies about a request it was sent", () => {
  it("bills at most the hold of its ticket", async () => {
    await send(rogue, used(ticketTo("rogue"), 10_000));
    expect(await spent()).toBe(5n * usd);
    expect(await checkBooks(replica.db)).toEqual(wholeBooks);
  });

  it("never takes an account above its limit, whatever it freed in the gateway's memory before", async () => {
    const tickets = Array.from({ length: 30 }, () => ticketTo("rogue"));
    await send(rogue, ...tickets.map((ticket) => used(ticket, 10_000)));
    expect(await spent()).toBe(100n * usd);
    // Each cost USD 10 and held 5: the rest is the operator's.
    const { rows } = await sql<{ sum: bigint }>`
      select sum(amount)::bigint as sum from ledger_entry where book = 'platform_loss'`.execute(replica.db);
    expect(rows).toEqual([{ sum: 200n * usd }]);
    expect(await checkBooks(replica.db)).toEqual(wholeBooks);
  });

  it("cannot replay its record with other usage", async () => {
    const ticket = ticketTo("rogue");
    await send(rogue, used(ticket, 1_000));
    await send(rogue, used(ticket, 4_000), used(ticket, 0));
    expect(await spent()).toBe(1n * usd);
    expect(await usageRows()).toHaveLength(1);
  });

  it.each([
    ["the largest safe integer", { outputTokens: Number.MAX_SAFE_INTEGER }],
    ["the largest safe integer as text", { inputTokens: "9007199254740991" }],
    ["more than the ticket allows", { outputTokens: 10_001 }],
    ["a negative number", { outputTokens: -5 }],
    ["a fraction", { outputTokens: 0.5 }],
    ["an object", { outputTokens: {} as number }],
    ["absurd units", { audioMs: Number.MAX_SAFE_INTEGER }],
  ])("is billed as delivered, and marked, when it reports %s", async (_, figures) => {
    const record = recordOf(ticketTo("rogue"), figures);
    await send(rogue, record);
    expect(await usageRows()).toMatchObject([
      { source: "engine_usage_rejected", outputTokens: 0n, inputTokens: 0n, charge: 0n },
    ]);
    expect(await quarantined()).toEqual([]);
    // Sent again before the acknowledgement arrived: it is counted once.
    await send(rogue, { ...record, spoolId: String(1_000_000 + Number(record.spoolId)) });
    expect(await registry.metrics()).toContain('stoker_usage_events_total{result="usage_rejected"} 1');
    expect(await checkBooks(replica.db)).toEqual(wholeBooks);
  });

  it("voids an earlier attempt only with a ticket that the gateway signed for a later one", async () => {
    const first = ticketTo("honest");
    await send(honest, used(first, 3_000));
    await send(rogue, used({ ...first, attempt: 2, hostId: "rogue" }, 1_000));
    expect(await spent()).toBe(1n * usd);
    expect((await usageRows()).map(({ attempt, voided }) => [attempt, voided])).toEqual([
      [1, true],
      [2, false],
    ]);
    expect(await checkBooks(replica.db)).toEqual(wholeBooks);
  });

  it("is billed for a record that comes days after its ticket expired", async () => {
    const admittedAtMs = Date.now() - 5 * 86_400_000;
    await send(rogue, used(ticketTo("rogue", { admittedAtMs, expiresAtMs: admittedAtMs + 60_000 }), 1_000));
    expect(await spent()).toBe(1n * usd);
  });
});

describe("a host that floods the control plane with bad records", () => {
  it("fills at most its own share of the quarantine; the rest is counted, and other hosts are still billed", async () => {
    const bad = (i: number): SpooledRecord => ({ ...used(ticketTo("rogue"), 1), requestId: `bad-${i}`, ticket: "{}" });
    const huge = { ...bad(-1), padding: "x".repeat(100_000) } as SpooledRecord;
    const batches = Array.from({ length: 6 }, (_, b) => Array.from({ length: 500 }, (__, i) => bad(b * 500 + i)));
    for (const batch of [[huge], ...batches]) await send(rogue, ...batch);
    await realCharge();
    const rows = await quarantined();
    expect(rows).toHaveLength(maxOpenPerHost);
    expect(rows.every(({ record }) => record.length < 33_000)).toBe(true);
    const metrics = await registry.metrics();
    expect(metrics).toContain(`stoker_usage_events_total{result="quarantined"} ${maxOpenPerHost}`);
    expect(metrics).toContain(`stoker_usage_events_total{result="quarantine_dropped"} ${3_001 - maxOpenPerHost}`);
    // Another host's bad record still finds space.
    await send(honest, { ...used(ticketTo("honest"), 1), ticket: "{}" });
    expect(await quarantined()).toHaveLength(maxOpenPerHost + 1);
    await expectOnlyTheRealCharge();
  });
});
