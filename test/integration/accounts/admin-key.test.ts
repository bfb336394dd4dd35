import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createAccounts } from "../../../control-plane/accounts/create-account.ts";
import { lookupOf } from "../../../control-plane/accounts/envelope.ts";
import { readSecretFiles } from "../../../control-plane/accounts/secret-files.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { openWorld } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const entry = resolve(import.meta.dirname, "../../../control-plane/admin-key.ts");

/** An installation whose operator has a key, and `stoker admin key` as the CLI runs it. */
async function openHost() {
  const world = await openWorld(postgres);
  const data = mkdtempSync(join(tmpdir(), "stoker-admin-key-"));
  onTestFinished(() => rmSync(data, { recursive: true, force: true }));
  const secrets = readSecretFiles(join(data, "secrets"), false);
  const made = await createAccounts({ store: world.accountStore, secrets }).ensureFirstAccount();
  if (!made) throw new Error("the first account was not made");
  const file = join(data, "admin.key");
  const run = (args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) =>
    new Promise<{ code: number | null; out: string; err: string }>((done, fail) => {
      const child = spawn(process.execPath, [entry, ...args], {
        env: {
          ...process.env,
          DATABASE_URL: world.url,
          STOKER_SECRETS_DIR: join(data, "secrets"),
          STOKER_ADMIN_KEY_FILE: file,
          ...env,
        },
      });
      const [out, err]: [string[], string[]] = [[], []];
      child.stdout.on("data", (chunk) => void out.push(String(chunk)));
      child.stderr.on("data", (chunk) => void err.push(String(chunk)));
      child.once("error", fail);
      child.once("close", (code) => done({ code, out: out.join(""), err: err.join("") }));
    });
  const accountOf = async (key: string) => (await world.accountStore.findKey(lookupOf(secrets, key)))?.account.account;
  return { ...world, data, file, run, accountOf, account: made.account, oldKey: made.apiKey };
}

describe("a lost key of the operator's account", () => {
  it("is replaced on the host, in a file only its owner can read, audited, and never printed", async () => {
    const host = await openHost();
    const { code, out, err } = await host.run();
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const key = readFileSync(host.file, "utf8").trim();
    expect(statSync(host.file).mode & 0o777).toBe(0o600);
    expect(await host.accountOf(key)).toBe(host.account);
    expect(await host.accountOf(host.oldKey)).toBe(host.account);
    expect(out).toContain("still work: auto");
    expect(out).not.toContain(key);
    const audit = await host.db.selectFrom("audit").selectAll().where("action", "=", "key.create").execute();
    expect(audit).toMatchObject([{ actor: "system", accountId: host.account, ip: "" }]);
    expect(JSON.stringify(audit, (_name, value) => (typeof value === "bigint" ? String(value) : value))).not.toContain(
      key,
    );
  });

  it("is revoked with every other key of the account on request", async () => {
    const host = await openHost();
    expect((await host.run(["--revoke-others"])).out).toContain("1 others were revoked");
    expect(await host.accountOf(host.oldKey)).toBeUndefined();
    expect(await host.accountOf(readFileSync(host.file, "utf8").trim())).toBe(host.account);
  });

  it("is unchanged if the file cannot be written, and no key remains", async () => {
    const host = await openHost();
    mkdirSync(host.file);
    writeFileSync(join(host.file, "x"), "");
    const { code, err } = await host.run();
    expect(code).toBe(1);
    expect(err).toMatch(/cannot be written .* no key was created/);
    const live = await host.db.selectFrom("apiKey").select("name").where("revokedAt", "is", null).execute();
    expect(live).toEqual([{ name: "auto" }]);
  });

  it("cannot be replaced with other secrets, without an operator's account or without the database, with the reason", async () => {
    const host = await openHost();
    const elsewhere = join(host.data, "other");
    readSecretFiles(elsewhere, false);
    const wrong = await host.run([], { STOKER_SECRETS_DIR: elsewhere });
    expect(wrong.code).toBe(78);
    expect(wrong.err).toContain("do not belong together");
    await host.db.updateTable("account").set({ isAdmin: false }).execute();
    expect((await host.run()).err).toContain("This database has no operator account");
    const away = await host.run([], { DATABASE_URL: "postgresql://stoker@127.0.0.1:1/stoker" });
    expect(away.code).toBe(7);
    expect(away.err).toContain("./scripts/up");
  });
});
