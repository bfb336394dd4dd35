import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { checkSecrets } from "../../../control-plane/accounts/check-secrets.ts";
import { createAccounts } from "../../../control-plane/accounts/create-account.ts";
import { createDataKeys } from "../../../control-plane/accounts/data-keys.ts";
import { type AccountSecrets, openApiKey, unwrapDek } from "../../../control-plane/accounts/envelope.ts";
import { resealers, rotationReport } from "../../../control-plane/accounts/kek-rotation.ts";
import { createKekWatch, rotateKek } from "../../../control-plane/accounts/rotate-kek.ts";
import { hubTokens, invoiceKeySeal, ticketKeySeal } from "../../../control-plane/accounts/seals.ts";
import { readSecretFiles, type SecretFiles } from "../../../control-plane/accounts/secret-files.ts";
import type { KekStore } from "../../../control-plane/accounts/store.ts";
import { bySystem } from "../../../control-plane/act.ts";
import { createChangeFeed } from "../../../control-plane/store/core/change-feed.ts";
import { createKekStore } from "../../../control-plane/store/core/kek-store.ts";
import { createInvoiceKeyStore } from "../../../control-plane/store/money/usage-seal-store.ts";
import { refreshOn } from "../../../control-plane/wiring/refresh-loop.ts";
import type { AccountId, HostId } from "../../../proto/ids.ts";
import { nano } from "../../../proto/money.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { log, openWorld, patience } from "../billing/world.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

const entry = resolve(import.meta.dirname, "../../../control-plane/rotate-kek.ts");
const quick = { waitMs: 0, pollMs: 1, aliveMs: 30_000, batch: 2 };
const hubToken = "hf_secret";
const ticketKey = Buffer.alloc(32, 7);

/** Five accounts with their keys, a hub token of the first, two hosts; the secrets in a folder. */
async function openInstallation() {
  const world = await openWorld(postgres);
  const folder = mkdtempSync(join(tmpdir(), "stoker-kek-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const secrets = readSecretFiles(folder, false);
  const store = createKekStore(world.db);
  let names = 0;
  const join_ = (held: AccountSecrets) =>
    createAccounts({ store: world.accountStore, secrets: held }).createAccount({
      email: `k${++names}@example.com`,
      displayName: `k${names}`,
      creditNanoUsd: nano(1n),
      isAdmin: false,
    });
  const made: { account: AccountId; apiKey: string }[] = [];
  for (let i = 0; i < 5; i++) made.push(await join_(secrets));
  const first = made[0]?.account as AccountId;
  const tokensOf = (held: AccountSecrets) => hubTokens(createDataKeys({ store: world.accountStore, secrets: held }));
  const sealedToken = await tokensOf(secrets).seal(first, hubToken);
  const hosts = ["h1", "h2"] as HostId[];
  for (const host of hosts) {
    await world.pool.query(
      `insert into host (host_id, hostname, advertise, inventory, node_epoch, ticket_key, agent_version)
       values ($1, $1, 'http://x', '{}', 1, $2, '0')`,
      [host, ticketKeySeal(secrets).seal(ticketKey, host)],
    );
  }

  await world.pool.query("insert into invoice_key values (1, $1, $2, null, now())", [
    Buffer.alloc(32),
    invoiceKeySeal(secrets).seal(ticketKey, "1"),
  ]);

  /** What `held` opens of all that was sealed, by name. */
  async function opened(held: AccountSecrets): Promise<readonly string[]> {
    const { rows: keys } = await world.pool.query(
      "select a.account_id, token_id, ciphertext, wrapped_dek from account a join api_key k using (account_id)",
    );
    const { rows: tickets } = await world.pool.query("select host_id, ticket_key from host");
    const { rows: invoiceKeys } = await world.pool.query("select sealed_key from invoice_key");
    const known = new Map(made.map(({ account, apiKey }) => [account, apiKey]));
    const attempts: readonly (readonly [string, () => unknown])[] = [
      ...keys.map(
        (row) =>
          [
            row.account_id,
            () => {
              const dek = unwrapDek(held, row.wrapped_dek, row.account_id);
              return openApiKey(dek, row.ciphertext, row.account_id, row.token_id) === known.get(row.account_id);
            },
          ] as const,
      ),
      ...tickets.map(
        (row) => [row.host_id, () => ticketKeySeal(held).open(row.ticket_key, row.host_id).equals(ticketKey)] as const,
      ),
      ...invoiceKeys.map(
        (row) => ["invoice key", () => invoiceKeySeal(held).open(row.sealed_key, "1").equals(ticketKey)] as const,
      ),
    ];
    const names = attempts.filter(([, attempt]) => succeeds(attempt)).map(([name]) => name);
    const token = await tokensOf(held)
      .open(first, sealedToken)
      .catch(() => undefined);
    return [...names, ...(token === hubToken ? ["hub token"] : [])].sort();
  }

  return {
    ...world,
    folder,
    secrets,
    store,
    join: async (held: AccountSecrets) => void made.push(await join_(held)),
    opened,
    everything: () => [...made.map(({ account }) => account as string), ...hosts, "hub token", "invoice key"].sort(),
    versions: async () =>
      (await world.pool.query("select kek_version from account order by created_at")).rows.map(
        (row) => row.kek_version,
      ),
    /** As the command does it, with other parts where given. */
    rotate: (over: Partial<KekStore> = {}, held: SecretFiles = readSecretFiles(folder, true)) =>
      rotateKek(
        {
          store: { ...store, ...over },
          secrets: held,
          reseal: resealers(held),
          act: bySystem("test"),
          print: () => {},
        },
        quick,
      ),
  };
}

function succeeds(attempt: () => unknown): boolean {
  try {
    return attempt() === true;
  } catch {
    return false;
  }
}

const only = ({ keks, pepper }: AccountSecrets, version: number): AccountSecrets => ({
  keks: keks.filter((kek) => kek.version === version),
  pepper,
});

describe("a rotation of the key-encryption key", () => {
  it("leaves everything to the new key, so that the old file can be removed", async () => {
    const world = await openInstallation();
    const rotation = await world.rotate();
    expect(rotation).toEqual({
      version: 2,
      resealed: { "data keys": 5, "ticket keys": 2, "authority keys": 0, "provider secrets": 0, "invoice keys": 1 },
      left: { "data keys": 0, "ticket keys": 0, "authority keys": 0, "provider secrets": 0, "invoice keys": 0 },
    });
    expect(statSync(join(world.folder, "kek.2")).mode & 0o777).toBe(0o400);
    const held = readSecretFiles(world.folder, true);
    const report = rotationReport(rotation, held);
    expect(report.isWhole).toBe(true);
    expect(report.text).toContain(`${join(world.folder, "kek")} may be removed`);
    expect(await world.opened(only(held, 2))).toEqual(world.everything());
    expect(await world.opened(only(held, 1))).toEqual([]);

    rmSync(join(world.folder, "kek"));
    await checkSecrets(world.accountStore, readSecretFiles(world.folder, true));
    const { rows } = await world.pool.query("select action, subject, after from audit where action like 'kek.%'");
    expect(rows).toEqual([
      { action: "kek.rotate", subject: "kek/2", after: null },
      {
        action: "kek.rewrap",
        subject: "kek/2",
        after: { "data keys": 5, "ticket keys": 2, "authority keys": 0, "provider secrets": 0, "invoice keys": 1 },
      },
    ]);
  });

  it("follows another one, and starts no third before the second ended", async () => {
    const world = await openInstallation();
    await world.rotate();
    expect((await world.rotate()).version).toBe(3);
    expect(await world.versions()).toEqual([3, 3, 3, 3, 3]);
    expect(await world.opened(only(readSecretFiles(world.folder, true), 3))).toEqual(world.everything());
    await expect(world.rotate({ use: () => Promise.reject(new Error("stopped")) })).rejects.toThrow("stopped");
    expect((await world.rotate()).version).toBe(4);
    expect(readdirSync(world.folder).sort()).toEqual(["kek", "kek.2", "kek.3", "kek.4", "pepper"]);
  });

  it("leaves every secret readable wherever it stops, and continues from there", async () => {
    const world = await openInstallation();
    const steps: string[] = [];
    const counted = <Name extends keyof KekStore>(name: Name, method: KekStore[Name], stopAt: number): KekStore[Name] =>
      (async (...args: unknown[]) => {
        steps.push(name);
        if (steps.length === stopAt) throw new Error("stopped");
        return (method as (...args: unknown[]) => unknown)(...args);
      }) as unknown as KekStore[Name];
    const stoppingAt = (step: number): Partial<KekStore> =>
      Object.fromEntries(
        Object.entries(world.store).map(([name, method]) => [name, counted(name as keyof KekStore, method, step)]),
      );
    let stops = 0;
    for (let step = 1; ; step++) {
      steps.length = 0;
      const end = await world.rotate(stoppingAt(step)).catch((error: Error) => error.message);
      const held = readSecretFiles(world.folder, true);
      expect(await world.opened(held), `after ${steps.join(", ")}`).toEqual(world.everything());
      await checkSecrets(world.accountStore, held);
      if (end !== "stopped") break;
      stops += 1;
    }
    // Before the file, after it, after the announcement, and between batches of two: each was a stop of its own.
    expect(stops).toBeGreaterThan(8);
    expect(new Set(await world.versions()).size).toBe(1);
  });

  it("does not undo concurrent writes of a control plane", async () => {
    const world = await openInstallation();
    const fresh = Buffer.alloc(32, 9);
    const held = readSecretFiles(world.folder, true);
    const { left } = await world.rotate(
      {
        async reseal(kind, version, rows) {
          // The agent of the first host comes back between reading and writing.
          if (kind === "ticket keys")
            await world.pool.query("update host set ticket_key = $1 where host_id = 'h1'", [
              ticketKeySeal(held).seal(fresh, "h1" as HostId),
            ]);
          return world.store.reseal(kind, version, rows);
        },
      },
      held,
    );
    expect(Object.values(left)).toEqual([0, 0, 0, 0, 0]);
    const { rows } = await world.pool.query("select ticket_key from host where host_id = 'h1'");
    expect(ticketKeySeal(held).open(rows[0].ticket_key, "h1" as HostId)).toEqual(fresh);
  });

  it("counts secrets that no key opens, leaves them, and advises keeping the files", async () => {
    const world = await openInstallation();
    await world.pool.query("update account set wrapped_dek = '\\x00' where display_name = 'k3'");
    const held = readSecretFiles(world.folder, true);
    const rotation = await world.rotate({}, held);
    expect(rotation).toMatchObject({ resealed: { "data keys": 4 }, left: { "data keys": 1, "ticket keys": 0 } });
    const report = rotationReport(rotation, held);
    expect(report.isWhole).toBe(false);
    expect(report.text).toContain("Keep every key file");
  });
});

describe("a control plane that runs during a rotation", () => {
  it("opens re-wrapped secrets before the notification arrives", async () => {
    const world = await openInstallation();
    await world.rotate();
    expect(world.secrets.keks).toHaveLength(1);
    expect(await world.opened(world.secrets)).toEqual(world.everything());
    expect(world.secrets.keks.map(({ version }) => version)).toEqual([2, 1]);
  });

  it("learns of the new key, confirms that it holds it, and creates accounts with it", async () => {
    const world = await openInstallation();
    const { id } = await world.replica();
    const feed = createChangeFeed({ pool: world.pool, log });
    const watch = createKekWatch({ store: world.store, secrets: world.secrets, replica: id });
    const loop = refreshOn(feed, ["kek"], { what: "keys", refresh: watch.refresh, everyMs: 3_600_000, log });
    const ending = new AbortController();
    await feed.start();
    await watch.refresh();
    const running = loop.run(ending.signal);
    onTestFinished(async () => {
      ending.abort();
      await running;
      await feed.stop();
    });
    const held = readSecretFiles(world.folder, true);
    await rotateKek(
      { store: world.store, secrets: held, reseal: resealers(held), act: bySystem("test"), print: () => {} },
      { ...quick, waitMs: patience.timeout },
    );
    expect(world.secrets.keks[0]?.version).toBe(2);
    await world.join(world.secrets);
    expect(await world.versions()).toEqual([2, 2, 2, 2, 2, 2]);
  });

  it("that does not hold the new key stops the rotation before anything is re-wrapped", async () => {
    const world = await openInstallation();
    const { id } = await world.replica();
    await expect(world.rotate()).rejects.toThrow(new RegExp(`kek.2 yet \\(${id}\\), so nothing was re-wrapped`));
    expect(await world.versions()).toEqual([1, 1, 1, 1, 1]);
    await world.store.hold(id, 2);
    expect((await world.rotate()).resealed["data keys"]).toBe(5);
  });

  it("is not waited for once it ended", async () => {
    const world = await openInstallation();
    await world.replica();
    await world.pool.query("update replica set seen_at = now() - interval '31 seconds'");
    expect((await world.rotate()).version).toBe(2);
  });

  it("creates no account with the old key once the new one is in use", async () => {
    const world = await openInstallation();
    await world.rotate();
    const stale = only(readSecretFiles(world.folder, true), 1);
    await expect(world.join(stale)).rejects.toThrow(/rotated/);
    await world.join(world.secrets);
    expect(await world.versions()).toEqual([2, 2, 2, 2, 2, 2]);
  });
});

describe("the secrets of another machine", () => {
  it("must include the new key before its control plane starts, and the rotation is not started again there", async () => {
    const world = await openInstallation();
    const elsewhere = only(world.secrets, 1);
    await world.rotate();
    await expect(checkSecrets(world.accountStore, elsewhere)).rejects.toThrow(/need kek\.2.*rotate-kek/s);
    const files = { ...world.secrets, keks: elsewhere.keks, reread: () => false };
    await expect(world.rotate({}, files)).rejects.toThrow(/was started on another machine/);
    // Made there at the same moment: another key of the same version.
    await world.pool.query("update kek set fingerprint = '\\x00', finished_at = null");
    await expect(world.rotate()).rejects.toThrow(/Another machine created another kek\.2/);
  });
});

describe("stoker admin rotate-kek", () => {
  function start(world: { readonly url: string; readonly folder: string }, program = entry) {
    const child = spawn(process.execPath, [program], {
      env: { ...process.env, DATABASE_URL: world.url, STOKER_SECRETS_DIR: world.folder },
    });
    const text = { out: "", err: "" };
    child.stdout.on("data", (chunk) => {
      text.out += chunk;
    });
    child.stderr.on("data", (chunk) => {
      text.err += chunk;
    });
    const ended = once(child, "close").then(([code]) => ({ code: code as number | null, ...text }));
    return { child: child as ChildProcess, ended };
  }

  it("loses nothing if killed in the middle, and completes when run again", async () => {
    const world = await openInstallation();
    // It waits for the row that this transaction holds: there it is killed.
    const blocker = await world.pool.connect();
    await blocker.query("begin");
    await blocker.query("select 1 from host where host_id = 'h2' for update");
    const { child, ended } = start(world);
    await vi.waitFor(async () => expect(await world.versions()).toEqual([2, 2, 2, 2, 2]), patience);
    child.kill("SIGKILL");
    await ended;
    await blocker.query("rollback");
    blocker.release();
    expect(existsSync(join(world.folder, "kek.2"))).toBe(true);
    const held = readSecretFiles(world.folder, true);
    expect(await world.opened(held)).toEqual(world.everything());
    const again = await start(world).ended;
    expect(again).toMatchObject({ code: 0, err: "" });
    expect(again.out).toMatch(/Key-encryption key 2 is in use: 0 data keys .* (0|2) ticket keys .* may be removed/);
    expect(await world.opened(only(held, 2))).toEqual(world.everything());
  });

  it("has a sibling that replaces the key of invoices, audited and signed by the one before", async () => {
    const world = await openInstallation();
    await world.pool.query("delete from invoice_key");
    const rotated = await start(world, resolve(entry, "../rotate-invoice-key.ts")).ended;
    expect(rotated).toMatchObject({ code: 0, err: "" });
    const keys = await createInvoiceKeyStore(world.db).publicKeys();
    expect(keys.map(({ version, signature }) => [version, signature !== ""])).toEqual([
      [1, false],
      [2, true],
    ]);
    expect(rotated.out).toContain(`Key 2 signs from now on: ${keys[1]?.publicKey}`);
    const { rows } = await world.pool.query("select subject from audit where action = 'invoice_key.rotate'");
    expect(rows).toEqual([{ subject: "invoice-key/2" }]);
  });

  it("gives the reason in one sentence if it did nothing", async () => {
    const world = await openInstallation();
    const other = await openInstallation();
    const { code, err } = await start({ url: world.url, folder: other.folder }).ended;
    expect(code).toBe(78);
    expect(err).toContain("do not belong together");
    expect(existsSync(join(other.folder, "kek.2"))).toBe(false);
  });
});
