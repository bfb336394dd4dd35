// Records a database of this version with rows in every table, as SQL text: test/fixtures/databases/README.md says how to run it.
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, it, vi } from "vitest";
import { ensureMoneyMonths } from "../../../control-plane/store/money/money-months.ts";
import { query } from "../../e2e/spine/database.ts";
import { startEveryTaskEngine } from "../../fakes/every-task-engine.ts";
import type { TestDatabases } from "../../fakes/postgres.ts";
import { postgresPrograms } from "../../fakes/postgres-programs.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { startWebhookReceiver } from "../../fakes/webhook-receiver.ts";
import { made, openWorld as openAgentInstances, saved } from "../agent-instances/world.ts";
import { by, openBillingWorld, usd } from "../billing/billing-world.ts";
import { patience, usageRecord } from "../billing/world.ts";

const file = process.env["STOKER_RECORD_DATABASE"];
const [chat, speech] = ["fake/chat", "fake/speech"];

it.runIf(file)("records a database with rows in every table", { timeout: 300_000 }, async () => {
  const engine = await startEveryTaskEngine([chat, speech]);
  const receiver = await startWebhookReceiver();
  const stack = await startStack({
    controlPlaneEnv: { HF_HUB_OFFLINE: "1", STOKER_BATCH_CLOCKS: "0.1", STOKER_WEBHOOK_ALLOW_PRIVATE: "1" },
    agentEnv: { HF_ENDPOINT: "http://127.0.0.1:1" },
  });
  try {
    await serveModels(stack, engine.origin);
    await useEverything(stack, `${receiver.origin}/hook`);
    await closeMonths(stack.databaseUrl);
    await runAgentInstance(stack.databaseUrl);
    await stack.agents[0]?.stop();
    await stack.controlPlane.stop();
    await insertTheRest(stack.databaseUrl);
    expect(await emptyTables(stack.databaseUrl)).toEqual([]);
    writeFileSync(file as string, await dump(stack.databaseUrl));
  } finally {
    await stack.stop();
    await receiver.close();
    await engine.close();
  }
});

async function serveModels(stack: Stack, url: string): Promise<void> {
  for (const [name, task] of [
    [chat, "text-generation"],
    [speech, "text-to-speech"],
  ] as const) {
    const { deploy_id } = await asked(stack, "POST", "/v1/admin/external", { name, task, url });
    await asked(stack, "PUT", `/v1/admin/external/${deploy_id}`, { costs: { output: 10 }, monthly_limit: 100 });
    const pricing = { input: 1, cached_input: 1, output: 20 };
    await asked(stack, "PUT", `/v1/admin/models/${name}`, { deploy_id, description: "A model.", pricing });
    await vi.waitFor(() => asked(stack, "POST", "/v1/completions", { model: name, prompt: "x", max_tokens: 1 }), {
      timeout: 60_000,
      interval: 200,
    });
  }
}

/** Sends one request for each kind of row that a customer or an operator can make over HTTP. */
async function useEverything(stack: Stack, webhook: string): Promise<void> {
  const ask = (method: string, path: string, body?: unknown, key?: string) => asked(stack, method, path, body, key);
  const bob = await ask("POST", "/v1/admin/accounts", { email: "b@example.com", display_name: "bob", credit_usd: 5 });
  const key = bob.api_key as string;
  await ask("POST", "/v1/organizations", { display_name: "acme" }, key);
  await ask("POST", `/v1/admin/accounts/${bob.uid}/credit`, { amount_usd: 1, note: "a present" });
  await ask("PUT", `/v1/admin/accounts/${bob.uid}/limits`, {
    rate_limit: 50,
    gpu_max: { other: 3 },
    gpu_min: { other: 1 },
  });
  await ask("POST", `/v1/admin/accounts/${bob.uid}/terms`, { credit_line_usd: 3, due_days: 7, note: "terms" });
  await ask("POST", "/v1/admin/discounts", { name: "early", percent: 10, uid: bob.uid });
  const gone = await ask("POST", "/v1/admin/accounts", { email: "e@example.com", display_name: "eve" });
  await ask("POST", `/v1/admin/accounts/${gone.uid}/suspend`, { reason: "admin", note: "test" });
  await ask("POST", "/v1/responses", { model: chat, input: "x", max_output_tokens: 1, store: true });
  await ask("PUT", "/v1/model-aliases/prod", { targets: [{ model: chat }] });
  await ask("PUT", "/v1/admin/sign-in-policy", { second_factor: "none" });
  await ask("POST", "/v1/admin/nodes/tokens", {});
  const { nodes } = await ask("GET", "/v1/admin/nodes");

  const password = "correct horse battery staple";
  await ask("POST", "/v1/me/password", { password }, key);
  await stack.call("POST", "/v1/auth/sign-in", { email: "b@example.com", password: "wrong" });
  await ask("POST", "/v1/auth/sign-in", { email: "b@example.com", password });
  await ask("POST", "/v1/ssh_keys", { name: "laptop", key: sshKey }, key);
  await ask("POST", "/payment/program/application", application, key);
  await ask("POST", "/payment/config", { limit: 4 }, key);
  await ask("POST", "/v1/me/gpu_pool/request", { reason: "growth", requested_max: { other: 8 } }, key);
  const { token } = await ask(
    "POST",
    "/v1/scoped-jwt",
    { api_key_name: "auto", expires_delta: 600, spending_limit: 1 },
    key,
  );

  const prompt = { model: chat, prompt: "Hello", max_tokens: 4, user: "ann" };
  await ask("POST", "/v1/completions", prompt, token);
  const headers = { "idempotency-key": "once", "x-request-id": "label", authorization: `Bearer ${key}` };
  expect((await stack.call("POST", "/v1/completions", prompt, headers)).status).toBe(200);
  await ask("POST", `/models/${chat}/meta`, { description: "Chats.", tags: ["small"] });
  await ask("POST", `/v1/inference/${chat}`, { input: "Hello", webhook }, key);
  await sendForms(stack, key);
  await vi.waitFor(async () => {
    const rows = await query(
      stack.databaseUrl,
      "select from webhook_attempt, batch_result, voice_blend, request_label limit 1",
    );
    expect(rows).toHaveLength(1);
  }, patience);
  await ask("POST", `/v1/admin/nodes/${nodes[0].name}/weights`, { repo: "acme/weights" });
  await ask("POST", `/v1/admin/nodes/${nodes[0].name}/cordon`, { note: "repair" });
}

async function sendForms(stack: Stack, key: string): Promise<void> {
  const send = async (path: string, form: FormData) => {
    const headers = { authorization: `Bearer ${key}` };
    const answer = await fetch(`${stack.url}${path}`, { method: "POST", headers, body: form });
    const text = await answer.text();
    expect(answer.status, `${path}: ${text}`).toBeLessThan(300);
    return JSON.parse(text) as Record<string, string>;
  };
  const voice = new FormData();
  voice.set("name", "mine");
  voice.set("files", new File([wav()], "sample.wav", { type: "audio/wav" }));
  const { voice_id } = await send("/v1/voices/add", voice);
  // The reply is audio, which `call` cannot read.
  const said = { text: "Hello", model_id: speech };
  await stack
    .call("POST", `/v1/text-to-speech/${voice_id}`, said, { authorization: `Bearer ${key}` })
    .catch(() => undefined);
  const body = { model: chat, messages: [{ role: "user", content: "Hello" }], max_tokens: 4 };
  const line = { custom_id: "a", method: "POST", url: "/v1/chat/completions", body };
  const batch = new FormData();
  batch.set("purpose", "batch");
  batch.set("file", new File([`${JSON.stringify(line)}\n`], "lines.jsonl"));
  const { id } = await send("/v1/files", batch);
  const asks = { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h" };
  await asked(stack, "POST", "/v1/batches", asks, key);
}

/** Settles a request in each month's partition, and closes the two months before this one over the scripted provider. */
async function closeMonths(url: string): Promise<void> {
  const world = await openBillingWorld(at(url));
  const account = await world.account(20n * usd);
  const now = new Date();
  /** `months` from now. */
  const time = (months: number, day: number, hour = 0) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months, day, hour));
  await world.pool.query("update account set created_at = $2 where account_id = $1", [account, time(-2, 1)]);
  await world.postedAt(account, time(-2, 2));
  await ensureMoneyMonths(world.db, time(-1, 1));
  await world.billing.limits.setAccount(account, 15n * usd, by);
  for (const months of [-2, -1, 1]) {
    const admittedAtMs = String(time(months, 10).getTime());
    await world.settlement.settle([usageRecord(account, { input: 9, output: 1_000_000 }, { admittedAtMs })], "1");
    await world.postedAt(account, time(months, 10));
  }
  await world.settlement.settle([{ ...usageRecord(account, { input: 1, output: 1 }), ticket: "unsealed" }], "1");
  await world.billing.paying.setTopup(account, { isOn: true, amount: 20n * usd, threshold: 19n * usd }, by);
  await world.billing.updateStatuses();
  for (const months of [-1, 0]) {
    world.setClock(time(months, 1, 4).getTime());
    await world.billing.closeMonths();
  }
  await world.billing.usageSeals.run(new AbortController().signal);
}

async function runAgentInstance(url: string): Promise<void> {
  const world = await openAgentInstances(url);
  await saved(world, await made(world));
  await world.close();
}

/** Rows whose making takes a GPU, a browser, a repository, a second factor or a fault, as the product writes them. */
async function insertTheRest(url: string): Promise<void> {
  const account = "(select account_id from account where display_name = 'bob')";
  const host = "(select host_id from node_identity limit 1)";
  const [instance, deployment] = ["instance_id", "deploy_id"].map((id) => `(select ${id} from instance limit 1)`);
  await query(
    url,
    `insert into adapter (adapter_id, account_id, name, base_deploy_id, base_model, is_base_public, repo, revision)
       values ('adapter', ${account}, 'tuned', ${deployment}, '${chat}', true, 'acme/lora', 'main');
     insert into batch_result values ((select batch_id from batch limit 1), 2, true, '{}');
     insert into cli_login (lookup, account_id, token_id, created_at, expires_at) select '\\x01', account_id, token_id, now(),
       now() + interval '10 minutes' from api_key where account_id = ${account} limit 1;
     insert into usage_retention values ('2020-01-01');
     insert into database_backup values ('old.stoker-backup', now(), 4096, 1200, '0.1.0', null);
     insert into dashboard_visit (visit_hash, deploy_id, account_id, expires_at) select '\\x02', deploy_id, account_id,
       now() + interval '1 hour' from agent_instance;
     insert into terminal (ticket_hash, deploy_id, account_id, ip, expires_at) select '\\x04', deploy_id, account_id,
       '203.0.113.9', now() + interval '1 minute' from agent_instance;
     insert into delivered_count (request_id, attempt, account_id, output_tokens, lease_ids, hold, resolved_at)
       values ('broken', 1, ${account}, 3, '{}', 1000000, now());
     insert into ended_instance (instance_id, host_id) values ('ended', ${host});
     insert into invitation (invitation_id, account_id, role, expires_at)
       values ('invitation', ${account}, 'viewer', now() + interval '7 days');
     insert into gpu_reserve values ('H100-80GB', 3);
     insert into gpu_claim values (${host}, 'GPU-1', ${account}, 85899345920, 1073741824);
     insert into gpu_share values (${host}, 'GPU-1', ${instance}, ${account}, 1073741824);
     insert into gpu_sharing values (${account}, 'H100-80GB', 1);
     insert into gpu_cordon (host_id, gpu_uuid, fault_id, reason) values (${host}, 'GPU-1', 'xid-79', 'fell off the bus');
     insert into gpu_hold (instance_id, deploy_id, account_id, host_id, ended_at)
       values ('ended', ${deployment}, ${account}, ${host}, now());
     insert into host_series (host_id, step, at, gpus, gpus_held, running, waiting) values (${host}, 360, now(), 8, 4, 2, 0);
     insert into request_series (account_id, model, step, at, replica_id, requests) values (${account}, '', 360, now(), '', 5);
     insert into incident (kind, subject, severity, summary, ended_at) values ('platform_loss', '', 1, 'loss', now());
     insert into audit_delivery (receiver, seq) values ('https://receiver.example', 1);
     insert into identity_provider (provider_id, name, issuer, client_id, scopes, domains, is_enforced, is_listed, trusts_email, groups_claim,
       role_of_group) values ('provider', 'Acme', 'https://id.example', 'stoker', 'openid', '{example.com}', false, true, true, 'groups', '{}');
     insert into identity (identity_id, provider_id, subject, account_id, email, is_managed)
       values ('identity', 'provider', 'subject', ${account}, 'bob@example.com', true);
     insert into provider_sign_in (lookup, provider_id, browser, return_to, is_fresh, expires_at)
       values ('\\x05', 'provider', '\\x06', '/', false, now());
     insert into scim_group (group_id, provider_id, display_name) values ('group', 'provider', 'developers');
     insert into scim_group_member values ('group', 'identity');
     insert into mail (mail_id, account_id, recipient, subject, body) values ('mail', ${account}, 'bob@example.com', 'Limit', 'Text');
     insert into project (project_id, account_id, name) values ('project', ${account}, 'research');
     insert into idempotency (account_id, route, key, body_hash, claim_id, locked_until, expires_at, stream_id, started_at, runs)
       values (${account}, 'POST /v1/chat/completions', 'stream', '\\x09', 'claim', now(), now() + interval '1 hour', 'stream', now(), 1);
     insert into stream_piece select stream_id, 0, '\\x07' from idempotency where stream_id is not null;
     insert into workload_identity (rule_id, account_id, name, issuer, audience, subject, claims, role, life_seconds)
       values ('rule', ${account}, 'ci', 'https://ci.example', 'stoker', 'repo:acme', '{}', 'inference', 600);
     insert into workload_exchange (exchange_id, rule_id, token_hash, token_expires_at, expires_at)
       values ('exchange', 'rule', '\\x08', now(), now());
     insert into limit_alert (budget_id, percent, lim, account_id, spent)
       select 'account-month/' || account_id || '/203001', 50, 2, account_id, 1 from account where display_name = 'bob';
     insert into usage_undivided values (${account}, 24360);
     insert into rejected_request values ('request', ${account}, 'key', now(), 'm', '/v1/chat/completions', 404, 'model_not_found', null, 0);
     insert into end_user_unsummed values (${account}, 24360);
     insert into kek (version, fingerprint, in_use_at) values (1, '\\x03', now());
     insert into measured_memory (version, engine, gpu, settings, peak_bytes, expected_bytes)
       values ('v', 'stoker', 'H100-80GB', '1 4 0', 1073741824, 1000000000);
     insert into payment_event values ('evt_1', 'charge.succeeded');
     insert into reconcile (reconcile_id, cause, ends_by, ended_at) values ('reconcile', 'restored', now(), now());
     insert into reconcile_host values ('reconcile', ${host}, 5, 0, null, true);
     insert into reconcile_sign (host_id, sign) values (${host}, 'ahead');
     insert into second_factor (factor_id, account_id, kind, name, sealed) values ('totp', ${account}, 'totp', 'phone', '\\x04');
     insert into recovery_code values (${account}, '\\x05');
     insert into sign_in_challenge (lookup, purpose, account_id, expires_at)
       values ('\\x06', 'sign_in', ${account}, now() + interval '5 minutes');`,
  );
}

const at = (url: string) => ({ migratedDatabase: async () => url }) as TestDatabases;

async function asked(stack: Stack, method: string, path: string, body?: unknown, key?: string) {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const answer = await stack.call(method, path, body, headers);
  expect(answer.status, `${method} ${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
  return answer.body;
}

/** Every table and partition without a row. */
async function emptyTables(url: string): Promise<string[]> {
  const tables = await query<{ name: string }>(
    url,
    "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1",
  );
  const empty: string[] = [];
  for (const { name } of tables) if ((await query(url, `select from "${name}" limit 1`)).length === 0) empty.push(name);
  return empty;
}

/** Plain SQL that any client can send: without comments, psql's own commands and what bullmq keeps in a schema of its own. */
async function dump(url: string): Promise<string> {
  const bin = await postgresPrograms("recording a database");
  if (!bin) throw new Error("pg_dump 18 is missing: run scripts/test once, which installs it");
  const args = ["--no-owner", "--no-acl", "--schema=public", "--inserts", "--rows-per-insert=100", url];
  const { stdout } = await promisify(execFile)(`${bin}/pg_dump`, args, { maxBuffer: 1 << 26 });
  return stdout
    .replaceAll(/^(--|\\).*\n/gm, "")
    .replaceAll(/^CREATE SCHEMA.*\n/gm, "")
    .replaceAll(/\n{2,}/g, "\n");
}

const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBDMqYZF0MgQGZ+1Lb1v5vJq3l3mXw4E7r8mJ9ZqJ0aV laptop";
const application = {
  company: "Acme",
  ceo: "Ada",
  funding: "none",
  founded_on: "2020-01-01",
  website: "https://acme.example",
};

/** A second of silence. */
function wav(): Buffer<ArrayBuffer> {
  const bytes = Buffer.alloc(44 + 16_000);
  bytes.write("RIFF", 0);
  bytes.writeUInt32LE(36 + 16_000, 4);
  bytes.write("WAVEfmt ", 8);
  bytes.writeUInt32LE(16, 16);
  bytes.writeUInt16LE(1, 20);
  bytes.writeUInt16LE(1, 22);
  bytes.writeUInt32LE(8_000, 24);
  bytes.writeUInt32LE(16_000, 28);
  bytes.writeUInt16LE(2, 32);
  bytes.writeUInt16LE(16, 34);
  bytes.write("data", 36);
  bytes.writeUInt32LE(16_000, 40);
  return bytes;
}
