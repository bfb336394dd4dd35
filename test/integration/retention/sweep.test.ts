// Retention on a real database: rows older than their period are removed; younger, unsettled and money rows stay.
import pino from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Kept, readRetention } from "../../../control-plane/retention/periods.ts";
import { sweepOld } from "../../../control-plane/retention/sweep.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createRetentionStore } from "../../../control-plane/store/core/retention-store.ts";
import { query } from "../../e2e/spine/database.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";

const log = pino({ level: "silent" });
const nowMs = Date.UTC(2030, 5, 15);
const minuteMs = 60_000;
const { retention } = readRetention(undefined);
let postgres: TestDatabases;
let url: string;
let database: OpenDatabase;

beforeAll(async () => {
  postgres = await sharedPostgres();
  url = await postgres.migratedDatabase();
  database = openDatabase(url, { maxConnections: 4, log });
  for (const text of [
    `insert into account (account_id, email, display_name, wrapped_dek, kek_version) values ('u:1', 'a@x', 'a', '\\x00', 1)`,
    `insert into api_key (token_id, account_id, name, lookup, ciphertext, fragment)
     values ('k1', 'u:1', 'auto', '\\x01', '\\x02', 'stk')`,
    `insert into identity_provider (provider_id, name, issuer, client_id, scopes, domains, is_enforced, is_listed, trusts_email,
       groups_claim, role_of_group) values ('provider', '', '', '', '', '{}', false, false, false, '', '{}')`,
    `insert into workload_identity (rule_id, account_id, name, issuer, audience, subject, claims, role, life_seconds)
       values ('rule', 'u:1', '', '', '', '', '{}', 'read', 60)`,
    "insert into budget (budget_id, account_id, scope, lim) values ('account/u:1', 'u:1', 'account', 1)",
  ])
    await query(url, text);
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

const sweep = () =>
  sweepOld({ store: createRetentionStore(database.db), retention, log }, nowMs, new AbortController().signal);

/** Usage: expired-usage.test.ts. How a row of each other kind is made that was done with at a time, and where it is then found. */
const kinds: Record<
  Exclude<Kept, "usage">,
  { readonly insert: string; readonly table: string; readonly column: string }
> = {
  changes: { insert: "insert into change (topic, subject, at) values ($1, 's', $2)", table: "change", column: "topic" },
  "request-labels": {
    insert: "insert into request_label (request_id, label, account_id, at) values ($1, 'l', 'u:1', $2)",
    table: "request_label",
    column: "request_id",
  },
  "rejected-requests": {
    insert: `insert into rejected_request (request_id, account_id, key_id, at, model, route, status, code)
      values ($1, 'u:1', 'k1', $2, 'm', '/v1/chat/completions', 404, 'model_not_found')`,
    table: "rejected_request",
    column: "request_id",
  },
  "delivered-counts": {
    insert: `with settled as (
      insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id,
        node_epoch, lease_ids, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, source, end_reason,
        price_version, input_rate, cached_input_rate, output_rate, cost, charge, queue_ms, first_byte_ms, total_ms, ended_at)
      values ($1, 1, $2, 'u:1', 'k1', 'r', 'm', 'd', 'i', 1, '{}', 1, 1, 0, 1, 0, 'engine', 'stop', 1, 1, 1, 1, 1, 1, 0, 0, 0, $2))
      insert into delivered_count (request_id, attempt, account_id, output_tokens, lease_ids, hold, at)
      values ($1, 1, 'u:1', 1, '{}', 1, $2)`,
    table: "delivered_count",
    column: "request_id",
  },
  events: {
    insert: "insert into event (kind, host_id, at) values ('host.joined', $1, $2)",
    table: "event",
    column: "host_id",
  },
  incidents: {
    insert: "insert into incident (kind, subject, severity, summary, ended_at) values ('host_warning', $1, 1, 's', $2)",
    table: "incident",
    column: "subject",
  },
  leases: {
    insert: `insert into lease (lease_id, budget_id, replica_id, replica_epoch, granted, expires_at, closed_at)
      values ($1, 'account/u:1', 'r-of-leases', 1, 1, $2, $2)`,
    table: "lease",
    column: "lease_id",
  },
  commands: {
    insert: `insert into host_command (command_id, host_id, kind, arguments, deadline_at, outcome, finished_at)
      values ($1, 'h', 'backup', '{}', $2, 'done', $2)`,
    table: "host_command",
    column: "command_id",
  },
  "ended-instances": {
    insert: `with known as (
      insert into host (host_id, hostname, advertise, inventory, node_epoch, ticket_key, agent_version)
        values ('h-ended', 'h', '', '{}', 1, '\\x00', '1') on conflict do nothing returning host_id)
      insert into ended_instance (instance_id, host_id, ended_at) values ($1, 'h-ended', $2)`,
    table: "ended_instance",
    column: "instance_id",
  },
  batches: {
    insert: `insert into batch (batch_id, account_id, key_id, endpoint, input_file_id, output_expires_after_ms, status,
      expires_at, failed_at) values ($1, 'u:1', 'k1', '/v1/completions', 'f', 1, 'failed', $2, $2)`,
    table: "batch",
    column: "batch_id",
  },
  replicas: {
    insert: "insert into replica (replica_id, epoch, seen_at) values ($1, 1, $2)",
    table: "replica",
    column: "replica_id",
  },
  webhooks: {
    insert: `with job as (
      insert into webhook_job (request_id, account_id, key_id, model, url, host, origin, state, expires_at, finished_at)
        values ($1, 'u:1', 'k1', 'm', 'https://r', 'r', 'https://s', 'succeeded', $2, $2))
      insert into webhook_delivery (webhook_id, request_id, account_id, url, host, body, state, finished_at)
      values ($1, $1, 'u:1', 'https://r', 'r', '{}', 'delivered', $2)`,
    table: "webhook_delivery",
    column: "webhook_id",
  },
  "limit-alerts": {
    insert: `insert into limit_alert (budget_id, percent, lim, account_id, spent, at) values ($1, 50, 2, 'u:1', 1, $2)`,
    table: "limit_alert",
    column: "budget_id",
  },
  mails: {
    insert: `insert into mail (mail_id, account_id, recipient, subject, body, created_at) values ($1, 'u:1', 'a@example.com', '', '', $2)`,
    table: "mail",
    column: "mail_id",
  },
  "stored-responses": {
    insert: `insert into stored_response (response_id, account_id, key_id, status, background, sealed, expires_at,
      created_at, finished_at) values ($1, 'u:1', 'k1', 'completed', false, '\\x00', $2, $2, $2)`,
    table: "stored_response",
    column: "response_id",
  },
  "stream-pieces": {
    insert: `with stream as (
      insert into idempotency (account_id, route, key, body_hash, claim_id, locked_until, expires_at, stream_id)
      values ('u:1', 'POST /streamed', $1, '\\x00', 'c', $2, $2, $1))
      insert into stream_piece (stream_id, seq, data) values ($1, 0, '\\x00')`,
    table: "stream_piece",
    column: "stream_id",
  },
  idempotency: {
    insert: `insert into idempotency (account_id, route, key, body_hash, claim_id, locked_until, expires_at)
      values ('u:1', 'POST /x', $1, '\\x00', 'c', $2, $2)`,
    table: "idempotency",
    column: "key",
  },
  "login-sessions": {
    insert: `insert into login_session (lookup, account_id, created_at, seen_at, expires_at)
      values (convert_to($1, 'UTF8'), 'u:1', $2, $2, $2)`,
    table: "login_session",
    column: "convert_from(lookup, 'UTF8')",
  },
  "cli-logins": {
    insert: `insert into cli_login (lookup, account_id, token_id, created_at, expires_at)
      values (convert_to($1, 'UTF8'), 'u:1', 'k1', $2, $2)`,
    table: "cli_login",
    column: "convert_from(lookup, 'UTF8')",
  },
  "sign-in-challenges": {
    insert:
      "insert into sign_in_challenge (lookup, purpose, expires_at) values (convert_to($1, 'UTF8'), 'passkey', $2)",
    table: "sign_in_challenge",
    column: "convert_from(lookup, 'UTF8')",
  },
  "provider-sign-ins": {
    insert: `insert into provider_sign_in (lookup, provider_id, browser, return_to, is_fresh, expires_at)
      values (convert_to($1, 'UTF8'), 'provider', '', '/console', false, $2)`,
    table: "provider_sign_in",
    column: "convert_from(lookup, 'UTF8')",
  },
  "workload-exchanges": {
    insert: `insert into workload_exchange (exchange_id, rule_id, token_hash, token_expires_at, expires_at)
      values ($1, 'rule', '', $2, $2)`,
    table: "workload_exchange",
    column: "exchange_id",
  },
  "sign-in-attempts": {
    insert: "insert into sign_in_attempt (key, taken, expires_at) values (convert_to($1, 'UTF8'), 1, $2)",
    table: "sign_in_attempt",
    column: "convert_from(key, 'UTF8')",
  },
};

describe.each(Object.keys(kinds) as (keyof typeof kinds)[])("%s", (kind) => {
  const { insert, table, column } = kinds[kind];
  const text = `select ${column} as name from ${table} where ${column} like 'sweep-${kind}-%' order by 1`;
  const [old, young] = [`sweep-${kind}-old`, `sweep-${kind}-young`];
  const names = async () => (await query<{ name: string }>(url, text)).map((row) => row.name);

  it("are removed once older than their period, and not before", async () => {
    const edgeMs = nowMs - retention[kind];
    await query(url, insert, [old, new Date(edgeMs - minuteMs)]);
    await query(url, insert, [young, new Date(edgeMs + minuteMs)]);
    expect(await names()).toEqual([old, young]);
    await sweep();
    expect(await names()).toEqual([young]);
  });
});

it("revokes the key of a workload's exchange before it removes the exchange", async () => {
  const old = new Date(nowMs - retention["workload-exchanges"] - minuteMs);
  await query(
    url,
    `insert into api_key (token_id, account_id, name, lookup, ciphertext, fragment)
       values ('k-exchanged', 'u:1', 'exchanged', '\\x11', '\\x12', 'stk')`,
  );
  await query(
    url,
    `insert into workload_exchange (exchange_id, rule_id, token_id, token_hash, token_expires_at, expires_at)
       values ('exchanged', 'rule', 'k-exchanged', '', $1, $1)`,
    [old],
  );
  await sweep();
  expect(await query(url, "select from workload_exchange where exchange_id = 'exchanged'")).toEqual([]);
  expect(await query(url, "select from api_key where token_id = 'k-exchanged' and revoked_at is null")).toEqual([]);
});

it("more rows than one batch are all removed in one sweep", async () => {
  const old = new Date(nowMs - retention["request-labels"] - minuteMs);
  await query(
    url,
    `insert into request_label (request_id, label, account_id, at)
     select 'many-' || g, 'l', 'u:1', $1 from generate_series(1, 2500) g`,
    [old],
  );
  await sweep();
  expect(await query(url, "select 1 from request_label where request_id like 'many-%'")).toEqual([]);
});

it("a delivered count without its record, an open lease, a replica with leases and a call still being retried stay, however old", async () => {
  const old = [new Date(nowMs - 365 * 24 * 60 * minuteMs)];
  await query(
    url,
    `insert into delivered_count (request_id, attempt, account_id, output_tokens, lease_ids, hold, at)
     values ('unsettled', 1, 'u:1', 1, '{}', 1, $1)`,
    old,
  );
  await query(
    url,
    `insert into lease (lease_id, budget_id, replica_id, replica_epoch, granted, expires_at)
     values ('open', 'account/u:1', 'holder', 1, 1, $1)`,
    old,
  );
  await query(url, "insert into replica (replica_id, epoch, seen_at) values ('holder', 1, $1)", old);
  await query(
    url,
    `with job as (
       insert into webhook_job (request_id, account_id, key_id, model, url, host, origin, state, expires_at, finished_at)
         values ('tried', 'u:1', 'k1', 'm', 'https://r', 'r', 'https://s', 'succeeded', $1, $1))
       insert into webhook_delivery (webhook_id, request_id, account_id, url, host, body, state)
       values ('tried', 'tried', 'u:1', 'https://r', 'r', '{}', 'pending')`,
    old,
  );
  await sweep();
  expect(await query(url, "select 1 from webhook_delivery where webhook_id = 'tried'")).toHaveLength(1);
  expect(await query(url, "select 1 from delivered_count where request_id = 'unsettled'")).toHaveLength(1);
  expect(await query(url, "select 1 from lease where lease_id = 'open'")).toHaveLength(1);
  expect(await query(url, "select 1 from replica where replica_id = 'holder'")).toHaveLength(1);
});

it("a batch that has not ended, or with result files, stays, however old; unwritten results are removed", async () => {
  const old = new Date(nowMs - 365 * 24 * 60 * minuteMs);
  const insert = `insert into batch (batch_id, account_id, key_id, endpoint, input_file_id, output_expires_after_ms, status,
    expires_at, completed_at, failed_at, output_file_id) values ($1, 'u:1', 'k1', '/v1/completions', 'f', 1, $2, $5, $3, $4, $6)`;
  await query(url, insert, ["b-open", "in_progress", null, null, old, null]);
  await query(url, insert, ["b-files", "completed", old, null, old, "file-of-b"]);
  await query(url, insert, ["b-unwritten", "failed", null, old, old, null]);
  await query(url, "insert into batch_result (batch_id, line, is_error, body) values ('b-unwritten', 1, false, '{}')");
  await query(
    url,
    `insert into file (file_id, account_id, purpose, blob_key, is_ready, expires_at)
     values ('file-of-b', 'u:1', 'batch_output', 'k', true, $1)`,
    [old],
  );
  const left = async () =>
    (await query<{ batch_id: string }>(url, "select batch_id from batch where batch_id like 'b-%' order by 1")).map(
      (row) => row.batch_id,
    );
  await sweep();
  expect(await left()).toEqual(["b-files", "b-open"]);
  expect(await query(url, "select 1 from batch_result where batch_id = 'b-unwritten'")).toEqual([]);
  // Its bytes have been removed, and its record with them.
  await query(url, "delete from file where file_id = 'file-of-b'");
  await sweep();
  expect(await left()).toEqual(["b-open"]);
});
