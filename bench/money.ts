// Settled usage records per second, compared with one bare statement that writes the same usage, ledger, budget and lease rows, in
// interleaved rounds on one PostgreSQL. Then what it costs to seal them, beside what it costs to settle them.
import pg from "pg";
import { pino } from "pino";
import { Registry } from "prom-client";
import { createInvoiceKeys } from "../control-plane/billing/invoice-keys.ts";
import { createBillingMetrics } from "../control-plane/billing/metrics.ts";
import { createQuarantine } from "../control-plane/billing/quarantine.ts";
import { monthScopes } from "../control-plane/billing/scopes.ts";
import { createSettlement, type Settlement } from "../control-plane/billing/settle.ts";
import { createUsageSeals } from "../control-plane/billing/usage-seals.ts";
import { openDatabase } from "../control-plane/store/core/database.ts";
import { migrateDatabase } from "../control-plane/store/core/migrate.ts";
import { createQuarantineStore } from "../control-plane/store/money/quarantine-store.ts";
import { createSettlementStore } from "../control-plane/store/money/settlement-store.ts";
import { createInvoiceKeyStore, createUsageSealStore } from "../control-plane/store/money/usage-seal-store.ts";
import { type HostId, randomId } from "../proto/ids.ts";
import { segmentItems } from "../proto/invoice-file.ts";
import { signTicket, type Ticket, ticketText } from "../proto/ticket.ts";
import type { SpooledRecord } from "../proto/usage-record.ts";
import { startPostgres } from "../test/fakes/postgres.ts";
import type { BenchOptions, Figures } from "./figures.ts";
import { median } from "./load.ts";

const groups = [1, 50, 500] as const;
const limit = 0.6;
/** Records of one measurement. */
const amountOf = (group: number): number => (group === 1 ? 300 : group * 12);
const accounts = 20;
const log = pino({ level: "silent" });

export async function benchMoney({ rounds, only, figures }: BenchOptions): Promise<void> {
  const postgres = await startPostgres({ onDisk: true });
  try {
    const url = await postgres.createDatabase();
    await migrateDatabase(url, { log });
    const { db, pool, close } = openDatabase(url, { maxConnections: 4, log });
    const bare = new pg.Client({ connectionString: url });
    bare.on("error", () => {});
    await bare.connect();
    await seedAccounts(pool, [...Array(accounts).keys()]);
    const store = createSettlementStore(db, monthScopes);
    await store.ensureMoneyMonths(new Date());
    const metrics = createBillingMetrics(new Registry());
    const settlement = createSettlement({
      store,
      seals: { newest: () => seal, find: () => seal.bytes },
      quarantine: createQuarantine({ store: createQuarantineStore(db), metrics, log }),
      log,
      metrics,
      gatherMs: 0,
    });
    const out = [`\nmoney: settled records per second, medians of ${rounds} rounds; one bare statement = 1`];
    for (const group of only === "sealing" ? [] : groups) {
      const ours: number[] = [];
      const theirs: number[] = [];
      const cpu: number[] = [];
      for (let round = -1; round < rounds; round++) {
        const batches = batchesOf(group);
        const before = process.cpuUsage();
        const own = await perSecond(batches, async (batch) => {
          const done = await settlement.settle(
            batch.map(({ wire }) => wire),
            "1",
            host,
          );
          if (done.length !== batch.length) throw new Error("records were not settled");
        });
        const used = process.cpuUsage(before);
        const other = await perSecond(batchesOf(group), (batch) => writeBare(bare, batch));
        if (round < 0) continue; // Warms caches and compilers.
        ours.push(own);
        theirs.push(other);
        cpu.push((used.user + used.system) / amountOf(group));
      }
      const ratios = ours.map((rate, i) => rate / (theirs[i] as number));
      out.push(
        `groups of ${String(group).padStart(3)}  ${median(ours).toFixed(0).padStart(7)}/s  bare ${median(theirs).toFixed(0).padStart(7)}/s  ` +
          `ratio ${median(ratios).toFixed(2)}   ${figures.judge({ name: `groups of ${group}, records per second / bare statement`, values: ratios, atLeast: limit })}   CPU ${median(cpu).toFixed(0)} us/record`,
      );
    }
    await bare.end();
    const keys = createInvoiceKeys({
      store: createInvoiceKeyStore(db),
      seal: { seal: (key) => key, open: (key) => key },
    });
    const sealStore = createUsageSealStore(db, { settledAfterMs: 0 });
    const sealUsage = (items: number) =>
      createUsageSeals({ store: sealStore, keys, log, items }).run(new AbortController().signal);
    out.push(...(await sealing({ pool, settlement, sealUsage, rounds, figures })));
    process.stdout.write(`${out.join("\n")}\n`);
    await close();
  } finally {
    await postgres.stop();
  }
}

const sealLimit = 1.03;
/** Records of an account in one measurement: one segment, which is full except for single records, whose settlement takes long. */
const sealedOf = (group: number): number => (group === 1 ? 400 : segmentItems);
const sealedAccounts = 2;

/** Settles records, then seals those, alternating. Both in one process and one connection: the sum is what the records cost. */
async function sealing(deps: {
  readonly pool: pg.Pool;
  readonly settlement: Settlement;
  /** Runs the job, with segments of so many records. */
  readonly sealUsage: (items: number) => Promise<unknown>;
  readonly rounds: number;
  readonly figures: Figures;
}): Promise<string[]> {
  const { pool, settlement, sealUsage, rounds, figures } = deps;
  const out = [
    `\nsealing: microseconds per record, medians of ${rounds} rounds; settlement and sealing, settlement alone = 1`,
  ];
  let names = accounts;
  for (const group of groups) {
    const settled: number[] = [];
    const sealed: number[] = [];
    for (let round = -1; round < rounds; round++) {
      const owners = Array.from({ length: sealedAccounts }, () => names++);
      await seedAccounts(pool, owners);
      const count = sealedOf(group) * sealedAccounts;
      const batches = Array.from({ length: count / group }, (_, batch) =>
        Array.from({ length: group }, (_, i) => usageRecord(owners[(batch + i) % sealedAccounts] as number).wire),
      );
      const startedMs = performance.now();
      for (const batch of batches)
        if ((await settlement.settle(batch, "1", host)).length !== batch.length)
          throw new Error("records were not settled");
      const settledMs = performance.now();
      await sealUsage(sealedOf(group));
      const endedMs = performance.now();
      if (round < 0) continue;
      settled.push(((settledMs - startedMs) * 1_000) / count);
      sealed.push(((endedMs - settledMs) * 1_000) / count);
    }
    const { rows } = await pool.query("select sum(records)::int as n from usage_segment where account_id = $1", [
      `u:${names - 1}`,
    ]);
    if (rows[0].n !== sealedOf(group)) throw new Error(`${rows[0].n} records of groups of ${group} were sealed`);
    const ratios = sealed.map((us, i) => 1 + us / (settled[i] as number));
    const name = `groups of ${group}, settling and sealing / settling`;
    out.push(
      `groups of ${String(group).padStart(3)}  settle ${median(settled).toFixed(1).padStart(7)}  seal ${median(sealed).toFixed(2).padStart(6)}  ` +
        `ratio ${median(ratios).toFixed(3)}   ${figures.judge({ name, values: ratios, atMost: sealLimit })}`,
    );
  }
  return out;
}

/** Accounts `u:0` and so on, each with a key, a budget and an open lease. */
export async function seedAccounts(pool: Pick<pg.Client, "query">, numbers: readonly number[]): Promise<void> {
  for (const i of numbers) {
    await pool.query(
      `insert into account (account_id, email, display_name, wrapped_dek, kek_version) values ($1, $1, $1, '', 1)`,
      [`u:${i}`],
    );
    await pool.query(
      `insert into api_key (token_id, account_id, name, lookup, ciphertext, fragment) values ($1, $2, 'auto', $3, '', '')`,
      [`k${i}`, `u:${i}`, Buffer.from(`k${i}`)],
    );
    await pool.query(`insert into budget (budget_id, scope, account_id, lim) values ($1, 'account', $2, $3)`, [
      `account/u:${i}`,
      `u:${i}`,
      10n ** 18n,
    ]);
    await pool.query(
      `insert into lease (lease_id, budget_id, replica_id, replica_epoch, granted, expires_at)
       values ($1, $2, 'r', 1, $3, now() + interval '1 day')`,
      [`l${i}`, `account/u:${i}`, 10n ** 15n],
    );
    await pool.query(`update budget set leased = $2 where budget_id = $1`, [`account/u:${i}`, 10n ** 15n]);
  }
}

function batchesOf(group: number): BenchRecord[][] {
  return Array.from({ length: amountOf(group) / group }, () =>
    Array.from({ length: group }, () => usageRecord(Math.floor(Math.random() * accounts))),
  );
}

async function perSecond<T>(batches: readonly T[][], write: (batch: T[]) => Promise<void>): Promise<number> {
  const startedMs = performance.now();
  for (const batch of batches) await write(batch);
  const records = batches.reduce((sum, batch) => sum + batch.length, 0);
  return (records * 1_000) / (performance.now() - startedMs);
}

/** Record with the ticket whose terms the bare statement writes. */
export interface BenchRecord {
  readonly wire: SpooledRecord;
  readonly ticket: Ticket;
}

export const seal = { version: 1, bytes: Buffer.alloc(32, 9) };
const agentKey = Buffer.alloc(32, 7);
export const host = "host" as HostId;

export function usageRecord(owner: number, terms: Partial<Ticket> = {}): BenchRecord {
  const nowMs = Date.now();
  const ticket: Ticket = {
    requestId: randomId(24),
    attempt: 1,
    hostId: host,
    instanceId: "instance",
    deployId: "deployment",
    admittedAtMs: nowMs,
    expiresAtMs: nowMs + 60_000,
    account: `u:${owner}`,
    keyId: `k${owner}`,
    replicaId: "r",
    model: "org/model",
    leaseIds: [`l${owner}`],
    hold: "1000000",
    permits: 1,
    inputTokensBound: 480,
    inputTokensEstimate: 120,
    maxTokens: 64,
    stream: true,
    usage: "extra",
    rates: ["20000000", "10000000", "40000000"],
    priceVersion: 1,
    ...terms,
  };
  const wire = {
    spoolId: randomId(12),
    requestId: ticket.requestId,
    attempt: 1,
    endedAtMs: nowMs,
    nodeEpoch: "1",
    inputTokens: 120,
    cachedInputTokens: 0,
    outputTokens: 64,
    reasoningTokens: 0,
    source: "engine",
    endReason: "stop",
    queueMs: 0,
    firstByteMs: 1,
    totalMs: 2,
    ticket: ticketText(signTicket(ticket, agentKey, seal)),
  };
  return { wire, ticket };
}

const bareStatement = `
  with facts as (select * from json_populate_recordset(null::usage, $1)), kept as (
    insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
      node_epoch, lease_ids, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, source, end_reason,
      price_version, input_rate, cached_input_rate, output_rate, cost, charge, queue_ms, first_byte_ms, total_ms, ended_at)
    select request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
      node_epoch, lease_ids, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, source, end_reason,
      price_version, input_rate, cached_input_rate, output_rate, cost, charge, queue_ms, first_byte_ms, total_ms, ended_at
    from facts on conflict do nothing returning request_id, account_id, key_id, admitted_at, lease_ids, charge
  ), entries as (
    insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model)
    select request_id, b.book, account_id, b.sign * charge, 'capture', request_id, 1, key_id, 'org/model'
    from kept, (values ('customer_available', -1), ('customer_spent', 1)) as b (book, sign)
  ), leases as (
    update lease set settled = lease.settled + s.sum
    from (select lease_ids[1] as lease_id, sum(charge) as sum from kept group by 1) s where lease.lease_id = s.lease_id
  )
  update budget b set spent = b.spent + s.sum, leased = b.leased - s.leased from (
    select id, sum(charge) as sum, sum(case when id like 'account/%' then charge else 0 end) as leased
    from (select *, to_char(admitted_at at time zone 'UTC', 'YYYYMM') as month from kept) k, lateral (values
      ('account/' || account_id), ('account-month/' || account_id || '/' || month), ('key/' || key_id || '/' || month)) as v (id)
    group by 1) s
  where b.budget_id = s.id`;

async function writeBare(client: pg.Client, batch: readonly BenchRecord[]): Promise<void> {
  const facts = batch.map(({ wire, ticket }) => ({
    request_id: ticket.requestId,
    attempt: ticket.attempt,
    admitted_at: new Date(ticket.admittedAtMs),
    account_id: ticket.account,
    key_id: ticket.keyId,
    replica_id: ticket.replicaId,
    model: ticket.model,
    deploy_id: ticket.deployId,
    instance_id: ticket.instanceId,
    node_epoch: wire.nodeEpoch,
    lease_ids: ticket.leaseIds,
    hold: ticket.hold,
    input_tokens: wire.inputTokens,
    cached_input_tokens: wire.cachedInputTokens,
    output_tokens: wire.outputTokens,
    reasoning_tokens: wire.reasoningTokens,
    source: wire.source,
    end_reason: wire.endReason,
    price_version: ticket.priceVersion,
    input_rate: ticket.rates[0],
    cached_input_rate: ticket.rates[1],
    output_rate: ticket.rates[2],
    cost: 4_960,
    charge: 4_960,
    queue_ms: wire.queueMs,
    first_byte_ms: wire.firstByteMs,
    total_ms: wire.totalMs,
    ended_at: new Date(Number(wire.endedAtMs)),
  }));
  await client.query({ name: "bare", text: bareStatement, values: [JSON.stringify(facts)] });
}
