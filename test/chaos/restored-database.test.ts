// P32: the database is replaced by its state from before many requests (1,000 in the nightly run). The agent kept their acknowledged
// records.
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { ledgerFacts, query } from "../e2e/spine/database.ts";
import { type ExternalStack, startExternalStack } from "../fakes/external-stack.ts";
import { isNightly, longer } from "../fakes/nightly.ts";
import { postgresPrograms } from "../fakes/postgres-programs.ts";

const patient = { timeout: 60_000, interval: 100 };
const tokens = 3;
let world: ExternalStack;
beforeAll(async () => {
  world = await startExternalStack({ isDatabaseOnDisk: true, engine: { tokens } });
}, 120_000);
afterAll(() => world?.stop());

const ask = async () =>
  (await world.stack.call("POST", "/v1/completions", { model: world.model, prompt: "hi", max_tokens: tokens })).status;

async function served(count: number): Promise<void> {
  for (let done = 0; done < count; ) {
    const statuses = await Promise.all(Array.from({ length: Math.min(20, count - done) }, ask));
    done += statuses.filter((status) => status === 200).length;
  }
}

async function settled(databaseUrl: string): Promise<void> {
  await vi.waitFor(async () => {
    const [row] = await query<{ n: number }>(databaseUrl, "select count(*)::int as n from usage");
    expect(row?.n).toBe(world.engine.log.length);
  }, patient);
}

const spent = async (databaseUrl: string) =>
  (
    await query<{ s: string }>(
      databaseUrl,
      "select sum(amount)::text as s from ledger_entry where book = 'customer_spent'",
    )
  )[0]?.s;

it("has all usage again after a restore, once, and reports how much came back", async () => {
  const { stack, engine } = world;
  await served(longer(20, 100));
  await settled(stack.databaseUrl);
  await stack.controlPlane.stop();
  const backup = await stack.postgres.createDatabase(stack.databaseUrl);
  const atBackup = engine.log.length;

  stack.controlPlane.start();
  await vi.waitFor(async () => expect(await ask()).toBe(200), patient);
  await served(longer(200, 1_000));
  await settled(stack.databaseUrl);
  const expected = await spent(stack.databaseUrl);
  await stack.controlPlane.kill9();

  stack.controlPlane.start({ DATABASE_URL: backup });
  await settled(backup);
  expect(await spent(backup)).toBe(expected);
  expect(await ledgerFacts(backup)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
  const report = await vi.waitFor(async () => {
    const [row] = await query<{ report: Record<string, unknown> | null }>(backup, "select report from reconcile");
    expect(row?.report).toBeTruthy();
    return row?.report;
  }, patient);
  expect(report).toMatchObject({
    hosts: 1,
    missingHosts: [],
    resent: engine.log.length,
    recovered: engine.log.length - atBackup,
    lostAtMost: 0,
  });
  const { body } = await stack.call("GET", "/v1/admin/restores");
  expect(body.restores).toMatchObject([
    {
      awaited_hosts: [],
      report: { hosts: 1, recovered_records: engine.log.length - atBackup, lost_records_at_most: 0 },
    },
  ]);
  expect(body.restores[0].ended_at).not.toBeNull();
  expect(await query(backup, "select * from usage_quarantine")).toEqual([]);
}, 240_000);

const programs = await postgresPrograms("backup and restore by pg_dump and pg_restore");

if (!isNightly) console.warn("NOT PROVEN here: a restore of a backup under load. npm run test:nightly does.");
it.runIf(programs && isNightly)(
  "restores an encrypted backup that was taken under load, on an empty database, with the money right",
  async () => {
    const { stack, engine } = world;
    const live = (await query<{ name: string }>(stack.databaseUrl, "select current_database() as name"))[0]?.name;
    expect(live).toBeDefined();
    const [backups, secrets] = [join(stack.folder, "backups"), join(stack.folder, "secrets")];
    const passphrase = join(stack.folder, "passphrase");
    writeFileSync(passphrase, "correct horse battery staple");
    const current = world.stack.databaseUrl.replace(/[^/]+$/, "test_2");
    const admin = (args: readonly string[], env: Record<string, string> = {}) =>
      promisify(execFile)(
        process.execPath,
        [
          join(import.meta.dirname, "../../control-plane/backup.ts"),
          ...args,
          "--dir",
          backups,
          "--passphrase-file",
          passphrase,
        ],
        {
          env: {
            ...process.env,
            DATABASE_URL: current,
            STOKER_SECRETS_DIR: secrets,
            STOKER_PG_BIN: programs ?? "",
            ...env,
          },
        },
      );

    const [{ stdout: created }] = await Promise.all([admin(["create"]), served(200)]);
    expect(created).toMatch(/ rows {2}verified /);
    const [file = ""] = readdirSync(backups).filter((name) => name.endsWith(".stoker-backup"));
    const bytes = readFileSync(join(backups, file));
    expect(bytes.subarray(0, 21).toString()).toBe("age-encryption.org/v1");
    expect(bytes.includes(readFileSync(join(secrets, "pepper")))).toBe(false);
    expect((await admin(["list"])).stdout).toContain(file);
    await served(500);
    await settled(current);
    const expected = await spent(current);
    await stack.controlPlane.kill9();

    await expect(admin(["restore", file])).rejects.toThrow(/not empty/);
    const changed = Buffer.from(bytes);
    changed[bytes.length - 100] = (changed[bytes.length - 100] ?? 0) ^ 1;
    writeFileSync(join(backups, `changed-${file}`), changed);
    const empty = await stack.postgres.createDatabase();
    const elsewhere = { DATABASE_URL: empty, STOKER_SECRETS_DIR: join(stack.folder, "restored-secrets") };
    await expect(admin(["restore", `changed-${file}`], elsewhere)).rejects.toThrow(/damaged or incomplete/);
    expect(existsSync(elsewhere.STOKER_SECRETS_DIR)).toBe(false);
    await admin(["restore", file], elsewhere);
    expect(readFileSync(join(elsewhere.STOKER_SECRETS_DIR, "pepper"))).toEqual(readFileSync(join(secrets, "pepper")));

    stack.controlPlane.start(elsewhere);
    await settled(empty);
    expect(await spent(empty)).toBe(expected);
    expect(await ledgerFacts(empty)).toEqual({ sum: 0, overspent: 0, capturesPerRequest: 1 });
    await vi.waitFor(async () => {
      const [row] = await query<{ report: { recovered: number } | null }>(
        empty,
        "select report from reconcile where cause = 'restored from a backup'",
      );
      expect(row?.report).toMatchObject({ missingHosts: [], lostAtMost: 0 });
      expect(row?.report?.recovered).toBeGreaterThanOrEqual(500);
    }, patient);
    // The host obeys the restored database without an operator.
    await vi.waitFor(async () => expect(await ask()).toBe(200), patient);
    expect(engine.log.length).toBeGreaterThan(1_700);
  },
  240_000,
);
