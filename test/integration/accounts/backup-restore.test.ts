import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { generateX25519Identity, identityToRecipient } from "age-encryption";
import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { checkSecrets } from "../../../control-plane/accounts/check-secrets.ts";
import { createAccounts } from "../../../control-plane/accounts/create-account.ts";
import { makeFirstAccount } from "../../../control-plane/accounts/first-account.ts";
import { readSecretFiles } from "../../../control-plane/accounts/secret-files.ts";
import { createAccountStore } from "../../../control-plane/store/accounts/accounts-store.ts";
import { openDatabase } from "../../../control-plane/store/core/database.ts";
import { seal, unseal } from "../../../control-plane/wiring/backup/archive.ts";
import { query } from "../../e2e/spine/database.ts";
import { isNightly, longer } from "../../fakes/nightly.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { postgresPrograms } from "../../fakes/postgres-programs.ts";
import { programs } from "../../fakes/programs.ts";

const log = pino({ level: "silent" });
const postgresBin = await postgresPrograms("backups and restores of the control plane");
const patient = { timeout: 60_000, interval: 50 };

const homes = mkdtempSync(join(tmpdir(), "stoker-restore-"));
let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(async () => {
  await postgres?.stop();
  rmSync(homes, { recursive: true, force: true });
});

/** An installation with 3 MB (at night 13) of rows that do not compress, and one row that says its state. */
async function openInstallation() {
  const home = mkdtempSync(join(homes, "installation-"));
  const [secrets, backups, temporary] = ["secrets", "backups", "tmp"].map((name) => join(home, name)) as [
    string,
    string,
    string,
  ];
  mkdirSync(temporary);
  readSecretFiles(secrets, false);
  const url = await postgres.migratedDatabase();
  const identity = await generateX25519Identity();
  const recipient = await identityToRecipient(identity);
  writeFileSync(join(home, "identity"), identity);
  await query(url, "create table state (content text)");
  await query(url, "insert into state values ('at the backup')");
  await query(url, "create index last_to_restore on state (content)");
  await query(
    url,
    `create table filler as select string_agg(md5(random()::text), '') as content
     from generate_series(1, ${longer(100, 400)}) as line, generate_series(1, 1000) group by line`,
  );
  const env = {
    ...process.env,
    DATABASE_URL: url,
    STOKER_SECRETS_DIR: secrets,
    STOKER_PG_BIN: postgresBin ?? "",
    TMPDIR: temporary,
  };
  /** The entry that the CLI runs: its own process can be killed. */
  const start = (...args: readonly string[]): ChildProcess =>
    spawn(process.execPath, [join(import.meta.dirname, "../../../control-plane/backup.ts"), ...args], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
  const run = async (args: readonly string[], others: Readonly<Record<string, string>> = {}) => {
    const child = spawn(process.execPath, [programs.cli, "admin", "backup", ...args], { env: { ...env, ...others } });
    const status = new Promise<number | null>((resolve) => child.once("exit", resolve));
    const [out, error] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { status: await status, out, error: error.split("\n").slice(2).join("\n") };
  };
  return {
    home,
    url,
    env,
    name: new URL(url).pathname.slice(1),
    secrets,
    backups,
    temporary,
    recipient,
    opening: { passphrase: undefined, identities: [identity] },
    identityFile: join(home, "identity"),
    start,
    run,
    create: () => run(["create", "--recipient", recipient]),
    restoring: ["--replace", "--identity-file", join(home, "identity")] as const,
    state: async () => (await query<{ content: string }>(url, "select content from state"))[0]?.content,
    /** Databases beside the installation's that a command created or set aside. */
    beside: async (kind: "restoring" | "replaced") =>
      (
        await query<{ name: string }>(
          postgres.url,
          `select datname as name from pg_database where datname ~ '^stoker_${kind}_'`,
        )
      ).map(({ name }) => name),
  };
}

async function kill9(child: ChildProcess): Promise<void> {
  const exited = new Promise((resolve) => child.once("exit", (_, signal) => resolve(signal)));
  child.kill("SIGKILL");
  expect(await exited, "it ended before the kill").toBe("SIGKILL");
}

/** Runs `statement` in a transaction that stays open until the client or the test ends. */
async function openTransaction(database: string, statement: string): Promise<pg.Client> {
  const url = new URL(postgres.url);
  url.pathname = database;
  const client = new pg.Client(url.href);
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(`begin; ${statement}`);
  return client;
}

const lockCatalogue = (table: string) => openTransaction("postgres", `lock table ${table} in share row exclusive mode`);

const untilBlocked = (count = 1) =>
  vi.waitFor(async () => {
    // Autovacuum may wait for the same lock, long before the command does.
    const rows = await query(
      postgres.url,
      "select from pg_stat_activity where wait_event_type = 'Lock' and backend_type = 'client backend'",
    );
    expect(rows).toHaveLength(count);
  }, patient);

/** Paths of all files under `folder` that hold a dump or a secret in plain text. */
function plainFiles(folder: string, secrets: readonly Buffer[]): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => {
      const bytes = readFileSync(path);
      return bytes.includes("PGDMP") || secrets.some((secret) => bytes.includes(secret));
    });
}

const backupsIn = (folder: string) => readdirSync(folder).filter((name) => name.endsWith(".stoker-backup"));

describe.runIf(postgresBin)("stoker admin backup create", () => {
  it("leaves no plain text when killed, and the next run removes the remains", async () => {
    const { url, backups, temporary, secrets, recipient, start, create } = await openInstallation();
    const child = start("create", "--recipient", recipient);
    await vi.waitFor(() => {
      const sizes = readdirSync(backups, { recursive: true }).map((name) => statSync(join(backups, String(name))).size);
      expect(Math.max(...sizes)).toBeGreaterThan(2 ** 20);
    }, patient);
    await kill9(child);
    const pepper = readFileSync(join(secrets, "pepper"));
    const plain = [pepper, Buffer.from(pepper.toString("base64"))];
    expect(readdirSync(backups)).toHaveLength(1);
    expect(plainFiles(backups, plain)).toEqual([]);
    expect(readdirSync(temporary)).toEqual([]);

    const { status, out, error } = await create();
    expect(status, error).toBe(0);
    expect(out).toContain("verified");
    expect(await query(url, "select file, verified_at > taken_at as verified from database_backup")).toEqual([
      { file: backupsIn(backups)[0], verified: true },
    ]);
    expect(readdirSync(backups).toSorted()).toEqual([...backupsIn(backups), `${backupsIn(backups)[0]}.json`]);
    expect(plainFiles(backups, plain)).toEqual([]);
  }, 120_000);
});

describe.runIf(postgresBin)("stoker admin backup restore --replace", () => {
  it("leaves the old database, or the new one that control planes refuse, when killed, and a retry restores and removes the remains", async () => {
    const { home, url, name, backups, secrets, env, create, start, run, restoring, state, beside } =
      await openInstallation();
    const open = openDatabase(url, { maxConnections: 1, log });
    const store = createAccountStore(open.db);
    const accounts = createAccounts({ store, secrets: readSecretFiles(secrets, false) });
    await makeFirstAccount({ store, accounts, log }, join(home, "admin.key"));
    await open.close();
    expect((await create()).status).toBe(0);
    const [file = ""] = backupsIn(backups);
    await query(url, "update state set content = 'later'");

    const loading = start("restore", file, ...restoring);
    await vi.waitFor(async () => {
      const rows = await query(postgres.url, "select from pg_stat_activity where application_name = 'pg_restore'");
      expect(rows).toHaveLength(1);
    }, patient);
    await kill9(loading);
    expect(await state()).toBe("later");
    const left = await beside("restoring");
    expect(left).toHaveLength(1);

    // A lock on the catalogue holds the rename back.
    const swapping = start("restore", file, ...restoring);
    const fresh = await vi.waitFor(async () => {
      const now = (await beside("restoring")).filter((database) => !left.includes(database));
      expect(now).toHaveLength(1);
      return now[0];
    }, patient);
    const lock = await lockCatalogue("pg_database");
    await untilBlocked();
    await kill9(swapping);
    await lock.end();
    expect(await state()).toBe("later");
    expect(await beside("restoring")).toEqual([fresh]);

    const filesOf = (folder: string) =>
      Object.fromEntries(["kek", "pepper"].map((file) => [file, readFileSync(join(folder, file))]));
    const backedUp = filesOf(secrets);
    rmSync(secrets, { recursive: true });
    readSecretFiles(secrets, false);
    const others = filesOf(secrets);

    // The lock holds the rename back. Without its standby PostgreSQL then holds the commit back, until the client is gone.
    const between = start("restore", file, ...restoring);
    await vi.waitFor(async () => {
      expect((await beside("restoring")).filter((database) => database !== fresh)).toHaveLength(1);
    }, patient);
    const secondLock = await lockCatalogue("pg_database");
    await untilBlocked();
    const setStandby = async (standby: string) => {
      await query(postgres.url, `alter system set synchronous_standby_names to '${standby}'`);
      await query(postgres.url, "select pg_reload_conf()");
    };
    const heldBack = (statement: string) =>
      query(
        postgres.url,
        `select from pg_stat_activity where wait_event = 'SyncRep' and starts_with(query, '${statement}')`,
      );
    // After a failure every commit of later tests waits.
    onTestFinished(() => setStandby(""));
    await setStandby("nobody");
    const probe = "select pg_logical_emit_message(true, '', '')";
    const probes: Promise<unknown>[] = [];
    await vi.waitFor(async () => {
      probes.push(query(postgres.url, probe));
      expect(await heldBack("select pg_logical")).not.toEqual([]);
    }, patient);
    await secondLock.end();
    await vi.waitFor(async () => expect(await heldBack("commit")).toHaveLength(1), patient);
    await kill9(between);
    await setStandby("");
    await Promise.all(probes);
    await vi.waitFor(async () => expect(await beside("replaced")).toHaveLength(1), patient);

    expect(await state()).toBe("at the backup");
    expect(filesOf(secrets)).toEqual(others);
    const controlPlane = spawn(process.execPath, [programs.controlPlane], {
      env: { ...env, STOKER_PORT: "0", STOKER_ADMIN_PORT: "0", STOKER_RPC_PORT: "0", STOKER_HOST: "127.0.0.1" },
    });
    const exited = new Promise((resolve) => controlPlane.once("exit", resolve));
    expect(await text(controlPlane.stderr)).toContain("data folder and database do not belong together");
    expect(await exited).toBe(78);

    // Only now: settings are copied outside of the transaction that renames.
    await query(url, `alter database ${name} set search_path to "$user", public`);
    await query(url, `alter database ${name} set deadlock_timeout to '2s'`);
    await query(url, `revoke temporary on database ${name} from public`);
    const settings = () =>
      query(
        postgres.url,
        `select setconfig, (select array_agg(a::text order by a::text) from unnest(datacl) as a) as grants, pg_encoding_to_char(encoding) as encoding, datcollate
         from pg_database d left join pg_db_role_setting s on s.setdatabase = d.oid where datname = $1`,
        [name],
      );
    const before = await settings();
    const { status, out, error } = await run(["restore", file, ...restoring]);
    expect(status, error).toBe(0);
    expect(out).toMatch(/^Restored the state of /);
    expect(await state()).toBe("at the backup");
    expect(filesOf(secrets)).toEqual(backedUp);
    expect(readdirSync(secrets).toSorted()).toEqual(["kek", "pepper"]);
    expect(await settings()).toEqual(before);
    expect(await beside("restoring")).toEqual([]);
    expect(await beside("replaced")).toEqual([]);
    expect(readdirSync(home).toSorted()).toEqual(["admin.key", "backups", "identity", "secrets", "tmp"]);
    expect(await query(url, "select cause from reconcile")).toEqual([{ cause: "restored from a backup" }]);
    const restored = openDatabase(url, { maxConnections: 1, log });
    await checkSecrets(createAccountStore(restored.db), readSecretFiles(secrets, true));
    await restored.close();
  }, 180_000);

  it.runIf(isNightly)(
    "leaves the new database when killed while it drops the old one, which a retry removes",
    async () => {
      const { url, backups, create, start, run, restoring, state, beside } = await openInstallation();
      expect((await create()).status).toBe(0);
      const [file = ""] = backupsIn(backups);
      // Dropping the old database is the last step, and needs this catalogue.
      await query(url, "update state set content = 'later'");
      const lock = await lockCatalogue("pg_db_role_setting");
      const last = start("restore", file, ...restoring);
      await untilBlocked();
      await kill9(last);
      // The database drops it for a client that is gone, too, unless its backend ends as well.
      await query(
        postgres.url,
        "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'",
      );
      await untilBlocked(0);
      await lock.end();
      expect(await state()).toBe("at the backup");
      expect(await beside("replaced")).toHaveLength(1);
      const again = await run(["restore", file, ...restoring]);
      expect(again.status, again.error).toBe(0);
      expect(await beside("replaced")).toEqual([]);
    },
    120_000,
  );
});

describe.runIf(postgresBin)("stoker admin backup restore --replace that is not killed", () => {
  let installation: Awaited<ReturnType<typeof openInstallation>>;
  let file: string;
  beforeAll(async () => {
    installation = await openInstallation();
    expect((await installation.create()).status).toBe(0);
    file = backupsIn(installation.backups)[0] ?? "";
  });

  it("leaves database and secrets unchanged if the backup is damaged", async () => {
    const { url, name, backups, secrets, recipient, opening, run, restoring, state, beside } = installation;
    await query(url, "update state set content = 'later'");
    const kek = readFileSync(join(secrets, "kek"));
    const oid = () => query(postgres.url, "select oid from pg_database where datname = $1", [name]);
    const before = await oid();

    const bytes = readFileSync(join(backups, file));
    const middle = Math.floor(bytes.length / 2);
    bytes[middle] = (bytes[middle] ?? 0) ^ 1;
    writeFileSync(join(backups, `changed-${file}`), bytes);
    expect(await run(["restore", `changed-${file}`, ...restoring])).toEqual({
      status: 1,
      out: "",
      error: "Wrong identity, or the file is damaged or incomplete.\n",
    });

    // Authenticated, but pg_restore cannot read it to its end.
    await unseal(join(backups, file), opening, async ({ manifest, dump }) => {
      const content = Buffer.concat(await Array.fromAsync(dump));
      const half = Readable.from([content.subarray(0, content.length / 2)]);
      await seal(join(backups, `half-${file}`), manifest as object, half, {
        passphrase: undefined,
        recipients: [recipient],
      });
    });
    const cut = await run(["restore", `half-${file}`, ...restoring]);
    expect(cut).toMatchObject({ status: 1, out: "" });
    expect(cut.error).toMatch(/^pg_restore failed: /);

    expect(await state()).toBe("later");
    expect(await oid()).toEqual(before);
    expect(readFileSync(join(secrets, "kek"))).toEqual(kek);
    expect(await beside("restoring")).toEqual([]);
  }, 120_000);

  it("leaves the databases of a running command, and refuses a second restore", async () => {
    const { start, run, restoring, identityFile, beside } = installation;
    const first = start("restore", file, ...restoring);
    const ended = new Promise((resolve) => first.once("exit", resolve));
    const [fresh = ""] = await vi.waitFor(async () => {
      const now = await beside("restoring");
      expect(now).toHaveLength(1);
      return now;
    }, patient);
    // Holds back an index, because PostgreSQL drops no database while any of its sessions is stopped in a COPY.
    const held = await openTransaction(fresh, "create table last_to_restore ()");
    await untilBlocked();
    expect((await run(["restore", file, ...restoring])).error).toMatch(/^Another restore of \w+ is running\. /);
    expect((await run(["verify", file, "--identity-file", identityFile])).status).toBe(0);
    expect(await beside("restoring")).toEqual([fresh]);
    await held.end();
    expect(await ended).toBe(0);
  });

  it("names the missing rights of the role before it loads anything", async () => {
    const { url, name, run, restoring, state } = installation;
    await query(url, `create role limited_${name} login; grant all on all tables in schema public to limited_${name}`);
    const limited = new URL(url);
    limited.username = `limited_${name}`;
    const asLimited = () => run(["restore", file, ...restoring], { DATABASE_URL: limited.href });
    expect(await asLimited()).toEqual({
      status: 1,
      out: "",
      error: `Role limited_${name} needs the right to create databases: alter role limited_${name} createdb. Then try again.\n`,
    });
    await query(url, `alter role limited_${name} createdb`);
    expect(await asLimited()).toEqual({
      status: 1,
      out: "",
      error:
        `Role limited_${name} must own the database ${name}, which belongs to stoker: ` +
        `alter database ${name} owner to limited_${name}. Then try again.\n`,
    });
    await query(url, `alter database ${name} owner to limited_${name}`);
    await query(url, `alter database ${name} set log_statement to 'none'`);
    await query(url, "update state set content = 'later'");
    const done = await asLimited();
    expect(done.status, done.error).toBe(0);
    expect(done.out).toContain(`alter database ${name} set log_statement to 'none';`);
    expect(await state()).toBe("at the backup");
  }, 120_000);
});
