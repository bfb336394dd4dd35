// How fast usage records become durable money: settlement (find, decide, write, in one transaction) against one bare
// statement that writes the same usage, ledger, budget and lease rows, in interleaved rounds on one PostgreSQL.
import pg from "pg";
import { pino } from "pino";
import { Registry } from "prom-client";
import { createBillingMetrics } from "../control-plane/billing/metrics.ts";
import { createSettlement } from "../control-plane/billing/settle.ts";
import { openDatabase } from "../control-plane/store/database.ts";
import { migrateDatabase } from "../control-plane/store/migrate.ts";
import { createSettlementStore } from "../control-plane/store/settlement-store.ts";
import { createUnrecordedStore } from "../control-plane/store/unrecorded-store.ts";
import { randomId } from "../proto/ids.ts";
import type { SpooledRecord } from "../proto/usage-record.ts";
import { startPostgres } from "../test/fakes/postgres.ts";
import { median } from "./load.ts";

const groups = [1, 50, 500] as const;
const limit = 0.6;
/** Records of one measurement. */
const amountOf = (group: number): number => (group === 1 ? 300 : group * 12);
const accounts = 20;
const log = pino({ level: "silent" });

export async function benchMoney({ rounds }: { rounds: number; only: string | undefined }): Promise<void> {
  const postgres = await startPostgres({ onDisk: true });
  try {
    const url = await postgres.createDatabase();
    await migrateDatabase(url, { log });
    const { db, pool, close } = openDatabase(url, { maxConnections: 4, log });
    const bare = new pg.Client({ connectionString: url });
    bare.on("error", () => {});
    await bare.connect();
    await seed(pool);
    const store = createSettlementStore(db);
    await store.ensureMoneyMonths(new Date());
    const settlement = createSettlement({
      store,
      quarantine: createUnrecordedStore(db),
      log,
      metrics: createBillingMetrics(new Registry()),
      gatherMs: 0,
    });
    const out = [`\nmoney: settled records per second, medians of ${rounds} rounds; one bare statement = 1`];
    for (const group of groups) {
      const ours: number[] = [];
      const theirs: number[] = [];
      const cpu: number[] = [];
      for (let round = -1; round < rounds; round++) {
        const batches = batchesOf(group);
        const before = process.cpuUsage();
        const own = await perSecond(batches, async (batch) => {
          const done = await settlement.settle(batch, "1");
          if (done.length !== batch.length) throw new Error("records were not settled");
        });
        const used = process.cpuUsage(before);
        const other = await perSecond(batchesOf(group), (batch) => writeBare(bare, batch));
        if (round < 0) continue; // Warms caches and compilers.
        ours.push(own);
        theirs.push(other);
        cpu.push((used.user + used.system) / amountOf(group));
      }
      const ratio = median(ours.map((rate, i) => rate / (theirs[i] as number)));
      out.push(
        `groups of ${String(group).padStart(3)}  ${median(ours).toFixed(0).padStart(7)}/s  bare ${median(theirs).toFixed(0).padStart(7)}/s  ` +
          `ratio ${ratio.toFixed(2)}   limit ${limit} ${ratio >= limit ? "met" : "MISSED"}   CPU ${median(cpu).toFixed(0)} us/record`,
      );
    }
    process.stdout.write(`${out.join("\n")}\n`);
    await bare.end();
    await close();
  } finally {
    await postgres.stop();
  }
}

async function seed(pool: pg.Pool): Promise<void> {
  for (let i = 0; i < accounts; i++) {
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

function batchesOf(group: number): SpooledRecord[][] {
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

const noUnits = {
  characters: "0",
  audioMs: "0",
  images: "0",
  imagePixelSteps: "0",
  items: "0",
  characterRate: "",
  audioRate: "",
  imageRate: "",
  imageUnit: "0",
};

function usageRecord(owner: number): SpooledRecord {
  const nowMs = String(Date.now());
  return {
    spoolId: randomId(12),
    requestId: randomId(24),
    attempt: 1,
    admittedAtMs: nowMs,
    endedAtMs: nowMs,
    instanceId: "instance",
    deployId: "deployment",
    nodeEpoch: "1",
    accountId: `u:${owner}`,
    keyId: `k${owner}`,
    replicaId: "r",
    model: "org/model",
    leaseIds: [`l${owner}`],
    holdNanoUsd: "1000000",
    inputTokens: "120",
    cachedInputTokens: "0",
    outputTokens: "64",
    reasoningTokens: "0",
    source: "engine",
    endReason: "stop",
    priceVersion: "1",
    discountId: "",
    inputRate: "20000000",
    cachedInputRate: "10000000",
    outputRate: "40000000",
    queueMs: 0,
    firstByteMs: 1,
    totalMs: 2,
    readyMs: 0,
    ...noUnits,
  };
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

async function writeBare(client: pg.Client, batch: readonly SpooledRecord[]): Promise<void> {
  const facts = batch.map((record) => ({
    request_id: record.requestId,
    attempt: record.attempt,
    admitted_at: new Date(Number(record.admittedAtMs)),
    account_id: record.accountId,
    key_id: record.keyId,
    replica_id: record.replicaId,
    model: record.model,
    deploy_id: record.deployId,
    instance_id: record.instanceId,
    node_epoch: record.nodeEpoch,
    lease_ids: record.leaseIds,
    hold: record.holdNanoUsd,
    input_tokens: record.inputTokens,
    cached_input_tokens: record.cachedInputTokens,
    output_tokens: record.outputTokens,
    reasoning_tokens: record.reasoningTokens,
    source: record.source,
    end_reason: record.endReason,
    price_version: record.priceVersion,
    input_rate: record.inputRate,
    cached_input_rate: record.cachedInputRate,
    output_rate: record.outputRate,
    cost: 4_960,
    charge: 4_960,
    queue_ms: record.queueMs,
    first_byte_ms: record.firstByteMs,
    total_ms: record.totalMs,
    ended_at: new Date(Number(record.endedAtMs)),
  }));
  await client.query({ name: "bare", text: bareStatement, values: [JSON.stringify(facts)] });
}
