// Reports of an account with 100,000 usage records over HTTP: milliseconds from request to the last byte, and CPU time of control plane and
// PostgreSQL, which depends less on other work of the machine.

import pg from "pg";
import { pino } from "pino";
import { openDatabase } from "../control-plane/store/core/database.ts";
import { ensureMoneyMonths } from "../control-plane/store/money/money-months.ts";
import { query } from "../test/e2e/spine/database.ts";
import { startStack } from "../test/fakes/processes.ts";
import type { BenchOptions } from "./figures.ts";
import { median } from "./load.ts";
import { childrenCpuMs, cpuMs, parentOf } from "./process-usage.ts";

const limitMs = 100;
const recordCount = 100_000;
const dayMs = 86_400_000;
const log = pino({ level: "silent" });
const dayOf = (daysAgo: number) => new Date(Date.now() - daysAgo * dayMs).toISOString().slice(0, 10);

export async function benchReports({ rounds, only, figures }: BenchOptions): Promise<void> {
  const stack = await startStack({ agents: 0, isDatabaseOnDisk: true });
  try {
    const { body } = await stack.call("POST", "/v1/admin/accounts", {
      email: "a@example.com",
      display_name: "a",
      credit_usd: 1_000,
    });
    const bearer = { authorization: `Bearer ${body.api_key}` };
    await seed(stack.databaseUrl, body.uid);
    const [backend] = await query<{ pid: number }>(
      stack.databaseUrl,
      "select pid from pg_stat_activity where backend_type = 'client backend'",
    );
    const server = parentOf(backend?.pid as number);
    const used = () => cpuMs(stack.controlPlane.pid) + childrenCpuMs(server);
    const out = [
      `\nreports: ms of each request with ${recordCount} records in 62 days, ${rounds} rounds; limit ${limitMs} of p50`,
    ];
    for (const path of await pathsOf(stack, bearer)) {
      if (only !== undefined && !path.includes(only)) continue;
      const times: number[] = [];
      let bytes = 0;
      let cpu = 0;
      for (let round = -1; round < rounds; round++) {
        if (round === 0) cpu = used();
        const startedMs = performance.now();
        const response = await fetch(`${stack.url}${path}`, { headers: bearer });
        const text = await response.text();
        if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`);
        bytes = text.length;
        if (round >= 0) times.push(performance.now() - startedMs);
      }
      const perRequest = (used() - cpu) / rounds;
      const p50 = median(times);
      out.push(
        `${column(p50)} p50 ${column(Math.min(...times))} min ${column(perRequest)} CPU ${column(bytes / 1024)} KiB  ` +
          `${figures.judge({ name: path.replace(/(from|to)=\d+/g, "$1=..."), unit: "ms", values: times, atMost: limitMs })}  ${path}`,
      );
    }
    process.stdout.write(`${out.join("\n")}\n`);
  } finally {
    await stack.stop();
  }
}

const column = (figure: number): string => figure.toFixed(0).padStart(5);

type Stack = Awaited<ReturnType<typeof startStack>>;

/** Reports of usage, billing and requests. The console requests neither days by end user nor end users by day with the highest cost first. */
async function pathsOf(stack: Stack, bearer: Record<string, string>): Promise<string[]> {
  const read = async (path: string) => (await stack.call("GET", path, undefined, bearer)).body;
  const { requests } = await read("/v1/requests?limit=100");
  const after = requests.at(-1).request_id;
  const whole = `from=${dayOf(61)}&to=${dayOf(0)}`;
  const year = `from=${dayOf(364)}&to=${dayOf(0)}`;
  const filters = `from=${Math.floor(Date.now() / 1000) - 62 * 86_400}&limit=100`;
  return [
    ...["model", "key", "model_and_key", "user", "token"].flatMap((by) => [
      `/v1/usage/days?by=${by}`,
      `/v1/usage/days?by=${by}&${whole}`,
    ]),
    `/v1/usage/users?${whole}&order=cost&limit=100`,
    `/v1/usage/users?${year}&by=month&limit=100`,
    `/v1/usage/users?${year}&by=day&limit=100`,
    `/v1/usage/users?${year}&model=acme/model-3&limit=100`,
    `/v1/usage/users?${year}&user=user-500&by=day&limit=100`,
    `/v1/usage/users?${whole}&order=cost&by=day&limit=100`,
    `/v1/usage/users?${whole}&by=day&format=csv&limit=10000`,
    ...["", "/tokens", "/rent"].map(
      (part) => `/payment/usage${part}?from=${Math.floor(Date.now() / 1000) - 62 * 86_400}`,
    ),
    ...["/payment/checklist?compute_owed=true", "/payment/config", "/payment/invoices", "/payment/funds"],
    ...["/payment/limit-alerts", "/payment/key-limits"],
    ...["", "&model=acme/model-3", "&model=acme/none", "&key=key-3", "&key=none", "&user=user-500", "&user=none"].map(
      (filter) => `/v1/requests?${filters}${filter}`,
    ),
    ...[
      "&status=200",
      "&status=500",
      "&status=4xx",
      "&end_reason=engine_error",
      "&failed=true",
      "&failed=true&model=acme/none",
    ].map((filter) => `/v1/requests?${filters}${filter}`),
    `/v1/requests?${filters}&after=${after}`,
    `/v1/requests/${after}`,
    `/v1/metrics/series?from=${Math.floor(Date.now() / 1000) - 86_400}`,
  ];
}

/** Two thirds of the requests name an end user, a third was made with a scoped token, a tenth failed. */
async function seed(url: string, account: string): Promise<void> {
  const { db, close } = openDatabase(url, { maxConnections: 1, log });
  for (let month = 0; month < 4; month++) await ensureMoneyMonths(db, new Date(Date.now() - month * 28 * dayMs));
  await close();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("set session_replication_role = replica");
  for (const text of seedTexts) await client.query(text, text.includes("$1") ? [account] : []);
  // Without statistics the sums of tokens take minutes.
  await client.query("analyze");
  await client.query("select rebuild_usage_days()");
  await client.query("vacuum analyze");
  await client.end();
}

const rows = `generate_series(1, ${recordCount}) n cross join lateral (select now() - n * interval '53.5 seconds' as at) a`;
const seedTexts = [
  `insert into api_key (token_id, account_id, name, lookup, ciphertext, fragment)
   select 'key-' || k, $1, 'key ' || k, convert_to('key' || k, 'UTF8'), '', '' from generate_series(0, 7) k`,
  `insert into end_user (account_id, name, end_user_id, month) select $1, 'user-' || u, 'eu-' || u, 0 from generate_series(0, 1999) u`,
  `insert into budget (budget_id, scope, account_id, lim) select 'jwt/' || t, 'jwt', $1, 1000000000 from generate_series(0, 4999) t`,
  `insert into usage (request_id, attempt, admitted_at, account_id, key_id, replica_id, model, deploy_id, instance_id, node_epoch, lease_ids,
     token_budget, hold, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, source, end_reason, price_version, input_rate,
     cached_input_rate, output_rate, cost, charge, queue_ms, first_byte_ms, total_ms, ended_at, settled_at, end_user, http_status)
   select 'request-' || n, 1, at, $1, 'key-' || n % 8, 'r', 'acme/model-' || n % 11, 'deployment-' || n % 5, 'i', 1, '{}',
     case when n % 3 = 0 then 'jwt/' || n * 7919 % 5000 end, 1000000, 100 + n % 300, 0, n % 500, 0, 'engine',
     case when n % 10 = 0 then 'engine_error' else 'stop' end, 1 + n % 11, 1000, 1000, 3000, 1000 + n % 977, 1000 + n % 977, 1, 50, 900,
     at, at, case when n % 3 > 0 then 'eu-' || n::bigint * 104729 % 2000 end, case when n % 20 = 0 then 500 else 200 end
   from ${rows}`,
  `insert into ledger_entry (transaction_id, book, account_id, amount, kind, request_id, attempt, key_id, model, price_version, posted_at)
   select 't-' || request_id, book, account_id, sign * charge, 'capture', request_id, 1, key_id, model, price_version, settled_at
   from usage cross join (values ('customer_available', -1), ('customer_spent', 1)) side (book, sign)`,
  `insert into usage_end_user (account_id, day, end_user, model, key_id, requests, input_tokens, output_tokens, cost)
   select account_id, (settled_at at time zone 'UTC')::date, end_user, model, key_id, count(*), sum(input_tokens), sum(output_tokens), sum(charge)
   from usage where end_user is not null group by 1, 2, 3, 4, 5`,
];
