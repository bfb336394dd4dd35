import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Registry } from "prom-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { makeApiKey } from "../../../control-plane/accounts/api-key.ts";
import { createAuthenticator } from "../../../control-plane/accounts/authenticate.ts";
import type { Caller } from "../../../control-plane/accounts/caller.ts";
import { checkSecrets } from "../../../control-plane/accounts/check-secrets.ts";
import type { AccountSecrets } from "../../../control-plane/accounts/envelope.ts";
import { InvalidApiKey } from "../../../control-plane/accounts/errors.ts";
import { makeFirstAccount } from "../../../control-plane/accounts/first-account.ts";
import { readSecretFiles, SecretsMissing } from "../../../control-plane/accounts/secret-files.ts";
import { DatabaseUnavailable } from "../../../control-plane/service-error.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { checkBooks } from "../../../control-plane/store/core/check-books.ts";
import type { KeyId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { promisedMs } from "../../fakes/nightly.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { signInParts } from "../../fakes/sign-in-parts.ts";
import { log, openWorld, type World, wholeBooks } from "../billing/world.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const patience = { timeout: 20_000, interval: 20 };
const ada = { email: "ada@example.com", displayName: "ada", creditNanoUsd: nano(5_000_000_000n), isAdmin: false };

function secretsFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "stoker-secrets-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "secrets");
}

const bytesOf = ({ keks, pepper }: AccountSecrets) => ({ keks, pepper });

async function authenticator(world: World, nowMs?: () => number) {
  const feed = createChangeFeed({ pool: world.pool, log });
  const made = createAuthenticator({
    store: world.accountStore,
    secrets: world.secrets,
    log,
    registry: new Registry(),
    changes: feed,
    ...(nowMs ? { nowMs } : {}),
  });
  await feed.start();
  onTestFinished(() => feed.stop());
  return made;
}

describe("accounts", () => {
  it("are created with a key, a budget and their credit in the ledger", async () => {
    const world = await openWorld(postgres);
    const { account, apiKey } = await world.accounts.createAccount(ada);
    expect(account).toMatch(/^u:[1-9]\d{12}$/);
    expect(apiKey).toMatch(/^stk_[0-9A-Za-z]{49}$/);
    expect(await world.budget(account)).toEqual({ limit: 5_000_000_000n, spent: 0n, leased: 0n });
    const { rows } = await world.pool.query(
      "select sum(amount)::bigint as sum from ledger_entry where book = 'customer_available'",
    );
    expect(rows[0].sum).toBe(5_000_000_000n);
    expect(await signInParts(world, { unixMs: Date.now }).profiles.read(account)).toMatchObject({
      uid: account,
      displayName: "ada",
      isAdmin: false,
    });
    expect(await checkBooks(world.db)).toEqual(wholeBooks);
  });

  it("refuse a taken e-mail address or display name, name which, and write nothing", async () => {
    const world = await openWorld(postgres);
    await world.accounts.createAccount(ada);
    const sameEmail = await world.accounts.createAccount({ ...ada, displayName: "other" }).catch((error) => error);
    const sameName = await world.accounts.createAccount({ ...ada, email: "other@example.com" }).catch((error) => error);
    expect(sameEmail).toMatchObject({ code: "name_taken" });
    expect(sameEmail.param).toBe("email");
    expect(sameName.param).toBe("display_name");
    const { rows } = await world.pool.query(
      "select (select count(*) from account) as accounts, (select count(*) from budget) as budgets",
    );
    expect(rows).toEqual([{ accounts: 1n, budgets: 1n }]);
  });

  it("start with one admin account, however many replicas start first", async () => {
    const world = await openWorld(postgres);
    const made = await Promise.all([1, 2, 3].map(() => world.accounts.ensureFirstAccount()));
    expect(made.filter((account) => account !== undefined)).toHaveLength(1);
    expect(await world.accounts.ensureFirstAccount()).toBeUndefined();
    const { rows } = await world.pool.query("select email, display_name, is_admin from account");
    expect(rows).toEqual([{ email: "admin@localhost", display_name: "admin", is_admin: true }]);
  });
});

describe("the first account's key", () => {
  const keyFile = () => join(secretsFolder(), "admin.key");
  const start = (world: World, file: string) =>
    makeFirstAccount({ store: world.accountStore, accounts: world.accounts, log }, file);

  it.each(["missing", "empty"])("is written again, for its owner alone, where the file is %s", async (state) => {
    const world = await openWorld(postgres);
    const file = keyFile();
    await start(world, file);
    const first = readFileSync(file, "utf8");
    expect(first).toMatch(/^stk_/);
    if (state === "missing") rmSync(file);
    else writeFileSync(file, "");
    await world.accounts.createAccount({ ...ada, isAdmin: true });
    await start(world, file);
    expect(readFileSync(file, "utf8")).toBe(first);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("is unchanged if the file contains one, and is not created again once revoked", async () => {
    const world = await openWorld(postgres);
    const file = keyFile();
    await start(world, file);
    writeFileSync(file, "my own\n");
    await start(world, file);
    expect(readFileSync(file, "utf8")).toBe("my own\n");
    await world.pool.query("update api_key set revoked_at = now()");
    rmSync(file);
    await start(world, file);
    expect(readFileSync(file, "utf8")).toBe("");
  });
});

describe("authentication", () => {
  it("accepts a known key synchronously, without the database", async () => {
    const world = await openWorld(postgres);
    const { account, apiKey } = await world.accounts.createAccount(ada);
    const auth = await authenticator(world);
    expect(await auth.authenticate(apiKey, "127.0.0.1")).toMatchObject({ account, displayName: "ada" });
    await postgres.kill9();
    try {
      expect((auth.authenticate(apiKey, "127.0.0.1") as Caller).account).toBe(account);
      // Its backends answer a moment longer than the killed postmaster.
      const refusal = async () => auth.authenticate(makeApiKey(), "127.0.0.1");
      await vi.waitFor(() => expect(refusal()).rejects.toThrow(DatabaseUnavailable), patience);
    } finally {
      await postgres.restart();
    }
  });

  it("refuses unknown, malformed, mistyped and empty secrets with one message", async () => {
    const world = await openWorld(postgres);
    const { apiKey } = await world.accounts.createAccount(ada);
    const auth = await authenticator(world);
    const mistyped = apiKey.slice(0, -1) + (apiKey.endsWith("0") ? "1" : "0");
    const messages = new Set<string>();
    for (const secret of [makeApiKey(), mistyped, "", "jwt:a.b.c", apiKey.toLowerCase(), `${apiKey} `]) {
      const refusal = await (async () => auth.authenticate(secret, "127.0.0.1"))().catch((error) => error);
      expect(refusal).toBeInstanceOf(InvalidApiKey);
      messages.add(refusal.message);
    }
    expect(messages.size).toBe(1);
  });

  it("stops within 2 s of a revocation by another replica", async () => {
    const world = await openWorld(postgres);
    const { account, apiKey } = await world.accounts.createAccount(ada);
    const auth = await authenticator(world);
    const caller = await auth.authenticate(apiKey, "127.0.0.1");
    const answer = async () => {
      try {
        return (await auth.authenticate(apiKey, "127.0.0.1")).account;
      } catch (error) {
        return error instanceof InvalidApiKey ? "refused" : error;
      }
    };
    expect(await answer()).toBe(account);
    expect(await world.tokenStore.revokeKey(account, caller.key, { by: account, ip: "", note: "" })).toBeDefined();
    await expect.poll(answer, { timeout: promisedMs(2_000), interval: 5 }).toBe("refused");
  });

  it("accepts a key created just after it was refused", async () => {
    const world = await openWorld(postgres);
    const { account, apiKey } = await world.accounts.createAccount(ada);
    const auth = await authenticator(world);
    await world.pool.query("update api_key set revoked_at = now()");
    await expect(auth.authenticate(apiKey, "127.0.0.1")).rejects.toThrow(InvalidApiKey);
    expect(() => auth.authenticate(apiKey, "127.0.0.1")).toThrow(InvalidApiKey);
    await world.pool.query("update api_key set revoked_at = null");
    await world.accounts.createAccount({ ...ada, email: "b@example.com", displayName: "b" });
    await vi.waitFor(
      async () => expect(await auth.authenticate(apiKey, "127.0.0.1")).toMatchObject({ account }),
      patience,
    );
  });

  it("queries the database again after five minutes", async () => {
    const world = await openWorld(postgres);
    const { apiKey } = await world.accounts.createAccount(ada);
    let now = 0;
    const auth = await authenticator(world, () => now);
    await auth.authenticate(apiKey, "127.0.0.1");
    now = 299_000;
    expect(auth.authenticate(apiKey, "127.0.0.1")).not.toBeInstanceOf(Promise);
    now = 301_000;
    const asked = auth.authenticate(apiKey, "127.0.0.1");
    expect(asked).toBeInstanceOf(Promise);
    await asked;
  });

  it("notes when a key was last used", async () => {
    const world = await openWorld(postgres);
    const { apiKey } = await world.accounts.createAccount(ada);
    const auth = await authenticator(world);
    auth.start();
    await auth.authenticate(apiKey, "127.0.0.1");
    await auth.stop();
    const { rows } = await world.pool.query("select last_used_at is not null as used from api_key");
    expect(rows).toEqual([{ used: true }]);
  });
});

describe("a key named by its secret or its id", () => {
  it("is found only by its own account", async () => {
    const world = await openWorld(postgres);
    const mine = await world.accounts.createAccount(ada);
    const other = await world.accounts.createAccount({ ...ada, email: "b@example.com", displayName: "b" });
    const { findOwnKey } = world.accounts;
    const key = await findOwnKey(mine.account, mine.apiKey);
    expect(key).toBeDefined();
    expect(await findOwnKey(mine.account, key as KeyId)).toBe(key);
    expect(await findOwnKey(other.account, mine.apiKey)).toBeUndefined();
    expect(await findOwnKey(other.account, key as KeyId)).toBeUndefined();
    expect(await findOwnKey(mine.account, makeApiKey())).toBeUndefined();
    // Revoked, it still has its page of usage.
    await world.pool.query("update api_key set revoked_at = now() where account_id = $1", [mine.account]);
    expect(await findOwnKey(mine.account, mine.apiKey)).toBe(key);
    expect(await findOwnKey(mine.account, key as KeyId)).toBe(key);
    expect(await findOwnKey(other.account, key as KeyId)).toBeUndefined();
  });
});

describe("secrets at rest", () => {
  it("appear nowhere in the database", async () => {
    const world = await openWorld(postgres);
    const { apiKey } = await world.accounts.createAccount(ada);
    const { rows: tables } = await world.pool.query("select tablename from pg_tables where schemaname = 'public'");
    let dump = "";
    for (const { tablename } of tables) {
      const { rows } = await world.pool.query(`select t::text as row from "${tablename}" t`);
      dump += rows.map(({ row }) => row).join("\n");
    }
    expect(dump).toContain(ada.email);
    for (const secret of [apiKey, world.secrets.keks[0]?.bytes, world.secrets.pepper]) {
      const bytes = Buffer.from(secret as string);
      for (const form of [bytes.toString(), bytes.toString("hex"), bytes.toString("base64")])
        expect(dump).not.toContain(form);
    }
    // The body of the key, without its known prefix.
    expect(dump).not.toContain(apiKey.slice(4, 20));
  });

  it("are created once, unreadable for others, and read again", async () => {
    const folder = secretsFolder();
    const made = readSecretFiles(folder, false);
    expect(statSync(join(folder, "kek")).mode & 0o777).toBe(0o400);
    expect(statSync(join(folder, "pepper")).mode & 0o777).toBe(0o400);
    expect(bytesOf(readSecretFiles(folder, true))).toEqual(bytesOf(made));
    expect(new Set([...made.keks.map(({ bytes }) => bytes.toString("hex")), made.pepper.toString("hex")]).size).toBe(2);
  });

  it("refuse a start that would make every key unreadable, with what is missing", () => {
    const folder = secretsFolder();
    expect(() => readSecretFiles(folder, true)).toThrow(/kek and pepper is missing.*backup/s);
    readSecretFiles(folder, false);
    chmodSync(join(folder, "pepper"), 0o600);
    rmSync(join(folder, "pepper"));
    expect(() => readSecretFiles(folder, true)).toThrow(SecretsMissing);
  });

  it("are completed if the first start was killed between the two", () => {
    const folder = secretsFolder();
    const { keks } = readSecretFiles(folder, false);
    rmSync(join(folder, "pepper"), { force: true });
    const made = readSecretFiles(folder, false);
    expect(made.keks).toEqual(keks);
    expect(bytesOf(readSecretFiles(folder, true))).toEqual(bytesOf(made));
    expect(readdirSync(folder).sort()).toEqual(["kek", "pepper"]);
  });

  it("refuse a data folder that belongs to another database", async () => {
    const world = await openWorld(postgres);
    await checkSecrets(world.accountStore, world.secrets);
    await world.accounts.createAccount(ada);
    await checkSecrets(world.accountStore, world.secrets);
    const otherKek = { ...world.secrets, keks: [{ version: 1, bytes: randomBytes(32) }] };
    const otherPepper = { ...world.secrets, pepper: randomBytes(32) };
    await expect(checkSecrets(world.accountStore, otherKek)).rejects.toThrow(/secrets\/kek/);
    await expect(checkSecrets(world.accountStore, otherPepper)).rejects.toThrow(/secrets\/pepper/);
  });
});
