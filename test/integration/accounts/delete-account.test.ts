// The end of an account on a real PostgreSQL.

import { randomUUID } from "node:crypto";
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { createApiTokens } from "../../../control-plane/accounts/api-tokens.ts";
import { createAuthenticator } from "../../../control-plane/accounts/authenticate.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { InvalidApiKey } from "../../../control-plane/accounts/errors.ts";
import { keyMonthBudget } from "../../../control-plane/billing/scopes.ts";
import { createTokenStore } from "../../../control-plane/store/accounts/tokens-store.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import { createAccountFeatures } from "../../../control-plane/wiring/accounts.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { from } from "../../fakes/sign-in-parts.ts";
import { log, openWorld, type World, wholeBooks } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const noOutbound = { blocked: [], mayBePlain: () => false, plainIssuers: [] };
const ip = "192.0.2.1";
const requestOf = (name: string, isAdmin = false) => ({
  email: `${name}@example.com`,
  displayName: name,
  creditNanoUsd: nano(5_000_000_000n),
  isAdmin,
});

async function accountFeatures(world: World) {
  const { db, secrets, accounts, accountStore } = world;
  const dataKeys = createDataKeys({ store: accountStore, secrets });
  const tokenStore = createTokenStore(db);
  const tokens = createApiTokens({
    monthOf: keyMonthBudget,
    store: { ...accountStore, ...tokenStore },
    dataKeys,
    secrets,
  });
  const deployments = createDeploymentStore(db);
  const changes = { on: () => {} };
  const features = createAccountFeatures({
    db,
    secrets,
    accounts,
    dataKeys,
    tokens,
    deployments,
    changes,
    isSignUpOpen: false,
    mail: undefined,
    log,
    publicUrl: undefined,
    outbound: noOutbound,
  });
  return { ...features, deployments, tokenStore };
}

const deploy = (world: World, account: AccountId, status = "deployed") =>
  world.pool.query(
    `insert into deployment (deploy_id, account_id, model_name, version, task, type, engine, status, gpu, num_gpus,
       max_batch_size, min_instances, max_instances, weights, extra_args)
     values ($1, $2, $1, 'v', 'text-generation', 'llm', 'stoker', $3, 'other', 1, 1, 1, 1, '{}', '{}')`,
    [randomUUID(), account, status],
  );

/** Tables that have no row of a deleted account. */
const emptied = [
  "cli_login",
  "end_user",
  "identity",
  "limit_alert",
  "mail",
  "login_session",
  "invitation",
  "member",
  "model_alias",
  "model_meta",
  "password",
  "project",
  "program_application",
  "provider_sign_in",
  "recovery_code",
  "rejected_request",
  "second_factor",
  "sign_in_challenge",
  "ssh_key",
  "stored_response",
  "voice",
  "voice_blend",
  "voice_sample",
  "webhook_delivery",
  "webhook_job",
  "webhook_kept",
  "webhook_secret",
  "workload_identity",
] as const;
/** Tables whose rows of a deleted account expire or are swept (control-plane/retention). */
const swept = [
  "dashboard_visit",
  "terminal",
  "event",
  "incident",
  "file",
  "batch",
  "idempotency",
  "request_label",
  "delivered_count",
  "request_series",
] as const;
/** Tables whose rows are records of the past: money, audit, deployments, limits. */
const retained = [
  "account",
  "account_billing",
  "account_limit",
  "account_suspension",
  "adapter",
  "agent_instance",
  "api_key",
  "audit",
  "budget",
  "charge",
  "credit",
  "deployment",
  "discount",
  "end_user_month",
  "end_user_unsummed",
  "gpu_claim",
  "gpu_hold",
  "gpu_share",
  "gpu_sharing",
  "instance",
  "instance_backup",
  "invoice",
  "invoice_line",
  "invoice_statement",
  "ledger_entry",
  "limit_request",
  "usage",
  "usage_day",
  "usage_digests",
  "usage_end_user",
  "usage_end_user_month",
  "usage_segment",
  "usage_token",
  "usage_undivided",
] as const;

describe("the personal data of a deleted account", () => {
  it("is cleared in every text column of the account except the reason for a suspension", async () => {
    const world = await openWorld(postgres);
    const features = await accountFeatures(world);
    const { account } = await world.accounts.createAccount(requestOf("ada"));
    const { rows: columns } = await world.pool.query<{ name: string }>(
      `select column_name as name from information_schema.columns
       where table_name = 'account' and data_type = 'text' and column_name <> 'account_id'`,
    );
    expect(columns.length).toBeGreaterThan(10);
    await world.pool.query(`update account set ${columns.map(({ name }) => `${name} = 'personal'`).join()}`);
    await features.deleteAccount({ account, ip });
    const { rows } = await world.pool.query<Record<string, unknown>>("select * from account");
    const left = Object.entries(rows[0] ?? {}).filter(([, value]) => value === "personal");
    expect(left.map(([name]) => name)).toEqual(["suspend_reason"]);
  });

  it("is in no unclassified table", async () => {
    const world = await openWorld(postgres);
    const { rows } = await world.pool.query<{ name: string }>(
      `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid
       where c.relkind in ('r', 'p') and not c.relispartition and a.attname = 'account_id'
         and c.relnamespace = 'public'::regnamespace order by 1`,
    );
    // A new table: either control-plane/store/accounts/profile-store.ts empties it, or the row outlives the account for a reason.
    expect(rows.map(({ name }) => name)).toEqual([...emptied, ...swept, ...retained].toSorted());
  });
});

describe("an account that its owner deletes", () => {
  it("returns its record, and ends keys, sessions, password and deployments", async () => {
    const world = await openWorld(postgres);
    const features = await accountFeatures(world);
    const { account, apiKey } = await world.accounts.createAccount(requestOf("ada"));
    const other = await world.accounts.createAccount(requestOf("bob"));
    const actor = { account, ip };
    const password = "correct horse";
    await features.signIn.setPassword(actor, { password, current: undefined }, undefined);
    const session = await features.sessions.begin(actor, ["password"]);
    for (const status of ["deployed", "failed", "stopped", "deleted"]) await deploy(world, account, status);
    await deploy(world, other.account);
    await world.pool.query("insert into webhook_kept values ($1, 0), ($2, 0)", [account, other.account]);

    expect(await features.deleteAccount(actor)).toMatchObject({
      uid: account,
      displayName: "ada",
      email: "ada@example.com",
    });

    await expect(features.profiles.read(account)).rejects.toMatchObject({ code: "account_not_found" });
    await expect(features.deleteAccount(actor)).rejects.toMatchObject({ code: "account_not_found" });
    const { rows: kept } = await world.pool.query("select account_id from webhook_kept");
    expect(kept).toEqual([{ account_id: other.account }]);
    expect(await features.sessions.find(session.cookie)).toBeUndefined();
    const signIn = features.signIn.signIn({ email: "ada@example.com", password }, from(ip));
    await expect(signIn).rejects.toMatchObject({ code: "wrong_password" });
    expect((await features.deployments.list(account, "model", undefined)).map(({ status }) => status)).toEqual(
      Array(4).fill("deleted"),
    );
    expect((await features.deployments.list(other.account, "model", undefined)).map(({ status }) => status)).toEqual([
      "deployed",
    ]);
    const authenticator = createAuthenticator({
      store: { ...world.accountStore, ...features.tokenStore },
      secrets: world.secrets,
      log,
      registry: new Registry(),
      changes: { on: () => {} },
    });
    await expect(authenticator.authenticate(apiKey, ip)).rejects.toThrow(InvalidApiKey);
    expect(await authenticator.authenticate(other.apiKey, ip)).toMatchObject({ account: other.account });
  });

  it("is refused by every replica within 2 s, also one with a cached key", async () => {
    const world = await openWorld(postgres);
    const features = await accountFeatures(world);
    const { account, apiKey } = await world.accounts.createAccount(requestOf("ada"));
    const feed = createChangeFeed({ pool: world.pool, log });
    const authenticator = createAuthenticator({
      store: { ...world.accountStore, ...features.tokenStore },
      secrets: world.secrets,
      log,
      registry: new Registry(),
      changes: feed,
    });
    await feed.start();
    onTestFinished(() => feed.stop());
    await authenticator.authenticate(apiKey, ip);
    await features.deleteAccount({ account, ip });
    await vi.waitFor(
      async () => {
        const end = await Promise.resolve()
          .then(() => authenticator.authenticate(apiKey, ip))
          .catch((error) => error);
        expect(end).toBeInstanceOf(InvalidApiKey);
      },
      { timeout: promisedMs(2_000), interval: 10 },
    );
  });

  it("leaves ledger and audit complete, and frees its address and names", async () => {
    const world = await openWorld(postgres);
    const features = await accountFeatures(world);
    const { account } = await world.accounts.createAccount(requestOf("ada"));
    await features.profiles.change({ account, ip }, { firstName: "Ada", company: "Analytical" });
    const ledger = () =>
      world.pool.query("select count(*) as n, sum(amount)::text as sum from ledger_entry where account_id = $1", [
        account,
      ]);
    const before = (await ledger()).rows;
    await features.deleteAccount({ account, ip });
    expect((await ledger()).rows).toEqual(before);
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
    const again = await world.accounts.createAccount(requestOf("ada"));
    expect(again.account).not.toBe(account);
    const { rows } = await world.pool.query("select a::text as row from account a where account_id = $1", [account]);
    for (const word of ["ada@example.com", "Ada", "Analytical"]) expect(rows[0].row).not.toContain(word);
    const { rows: audit } = await world.pool.query(
      "select actor, subject, ip from audit where action = 'account.delete'",
    );
    expect(audit).toEqual([{ actor: account, subject: account, ip }]);
  });

  it("is refused for the last admin, unchanged; of two concurrent deletions one is refused", async () => {
    const world = await openWorld(postgres);
    const features = await accountFeatures(world);
    const first = await world.accounts.createAccount(requestOf("root", true));
    await deploy(world, first.account);
    await expect(features.deleteAccount({ account: first.account, ip })).rejects.toMatchObject({ code: "last_admin" });
    expect((await features.deployments.list(first.account, "model", undefined)).map(({ status }) => status)).toEqual([
      "deployed",
    ]);
    const second = await world.accounts.createAccount(requestOf("root2", true));
    const ends = await Promise.allSettled(
      [first, second].map(({ account }) => features.deleteAccount({ account, ip })),
    );
    expect(ends.filter((end) => end.status === "fulfilled")).toHaveLength(1);
    expect(ends.find((end) => end.status === "rejected")?.reason).toMatchObject({ code: "last_admin" });
  });

  it("is refused while something continues to create deployments", async () => {
    const world = await openWorld(postgres);
    const features = await accountFeatures(world);
    const { account } = await world.accounts.createAccount(requestOf("ada"));
    await world.pool.query(`create function again() returns trigger language plpgsql as $$ begin
      insert into deployment select (jsonb_populate_record(new, jsonb_build_object('deploy_id', gen_random_uuid()::text,
        'model_name', gen_random_uuid()::text, 'status', 'deployed'))).*; return null; end $$`);
    await world.pool.query(
      "create trigger again after update on deployment for each row when (new.status = 'deleted') execute function again()",
    );
    await deploy(world, account);
    await expect(features.deleteAccount({ account, ip })).rejects.toMatchObject({ code: "account_in_use" });
    expect((await features.profiles.read(account)).displayName).toBe("ada");
  });
});
