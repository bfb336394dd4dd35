// Backups of the control plane's own database and secrets: created from one snapshot, restored on trial, listed, restored.
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { pino } from "pino";
import { acknowledgedKeptMs } from "../../../proto/usage-record.ts";
import { checkSecrets } from "../../accounts/check-secrets.ts";
import { accountSecretsOf } from "../../accounts/secret-files.ts";
import { createAccountStore } from "../../store/accounts/accounts-store.ts";
import { noteBackup } from "../../store/core/backup-notes.ts";
import { openDatabase } from "../../store/core/database.ts";
import {
  type DatabaseFacts,
  isEmptyDatabase,
  isInUse,
  markRestored,
  readFacts,
  withSnapshot,
} from "../../store/core/database-backup.ts";
import { type DatabaseServer, type NewDatabase, withDatabaseServer } from "../../store/core/database-swap.ts";
import { migrateDatabase } from "../../store/core/migrate.ts";
import {
  type Opening,
  otherVersion,
  removeAbandoned,
  type Sealing,
  seal,
  type Unsealed,
  unseal,
  type Written,
  withOwnKey,
} from "./archive.ts";
import { dumpOf, findPrograms, load, type ProgramPlaces } from "./programs.ts";
import { BackupRefused } from "./refused.ts";
import { hasSecrets, readSecretsFolder, type SecretFile, stageSecrets } from "./secrets-folder.ts";

const log = pino({ level: "silent" });
const ending = ".stoker-backup";

export interface BackupPlaces extends ProgramPlaces {
  readonly databaseUrl: string;
  readonly secretsDir: string;
  /** Where backups are kept. */
  readonly backupsDir: string;
}

/** Beside each backup, as JSON without secrets. */
export interface BackupNote extends Written {
  readonly file: string;
  readonly takenAtMs: number;
  readonly version: string;
  readonly rows: number;
  /** Unix ms of the last trial restore that succeeded; null: none yet. */
  readonly verifiedAtMs: number | null;
}

export interface Restored {
  readonly takenAtMs: number;
  /** Settings of the database that the role may not repeat. */
  readonly refusedSettings: readonly string[];
}

interface Manifest {
  readonly format: 2;
  readonly version: string;
  /** Major version of the PostgreSQL that was dumped. */
  readonly serverMajor: number;
  readonly facts: DatabaseFacts;
  readonly secrets: readonly SecretFile[];
}

async function inDatabase<T>(url: string, work: (db: ReturnType<typeof openDatabase>["db"]) => Promise<T>): Promise<T> {
  const { db, close } = openDatabase(url, { maxConnections: 2, statementTimeoutMs: 0, log });
  return work(db).finally(close);
}

/** Creates a backup and restores it on trial. Throws BackupRefused. */
export async function createBackup(
  places: BackupPlaces,
  wanted: Sealing,
  given: Opening,
  version: string,
): Promise<BackupNote> {
  await mkdir(places.backupsDir, { recursive: true, mode: 0o700 });
  await removeAbandoned(places.backupsDir);
  const canOpen = given.passphrase !== undefined || given.identities.length > 0;
  const { sealing, opening } = canOpen ? { sealing: wanted, opening: given } : await withOwnKey(wanted);
  const file = await withDatabaseServer(places.databaseUrl, log, async ({ major: serverMajor }) => {
    const programs = await findPrograms(serverMajor, places);
    return inDatabase(places.databaseUrl, (db) =>
      withSnapshot(db, async (snapshot, facts) => {
        const secrets = await readSecretsFolder(places.secretsDir);
        const manifest: Manifest = { format: 2, version, serverMajor, facts, secrets };
        const name = `${new Date(facts.takenAtMs).toISOString().replaceAll(":", "-")}${ending}`;
        const dump = dumpOf(programs.dump, places.databaseUrl, snapshot);
        const written = await seal(join(places.backupsDir, name), manifest, dump, sealing);
        await writeNote(places, noteOf(name, manifest, written, null));
        return name;
      }),
    );
  });
  return verifyBackup(places, file, opening);
}

/** Decrypts the file and restores it into a database that is dropped again. Throws BackupRefused. */
export async function verifyBackup(places: BackupPlaces, file: string, opening: Opening): Promise<BackupNote> {
  await removeAbandoned(places.backupsDir);
  return unseal(pathOf(places, file), opening, async (backup) => {
    const manifest = readManifest(backup);
    await withDatabaseServer(places.databaseUrl, log, (server) =>
      loadBeside(places, server, manifest, backup, async () => {}),
    );
    return writeNote(places, noteOf(file, manifest, backup.written(), Date.now()));
  });
}

const noteOf = (
  file: string,
  { version, facts }: Manifest,
  written: Written,
  verifiedAtMs: number | null,
): BackupNote => ({
  ...written,
  file: basename(file),
  takenAtMs: facts.takenAtMs,
  version,
  rows: Object.values(facts.rows).reduce((sum, n) => sum + n, 0),
  verifiedAtMs,
});

/**
 * Runs `work` with a new database that holds the backup: all rows, a ledger that balances, and sealed secrets that open with the
 * secrets of the backup.
 */
async function loadBeside<T>(
  places: BackupPlaces,
  server: DatabaseServer,
  { serverMajor, facts, secrets }: Manifest,
  backup: Unsealed,
  work: (fresh: NewDatabase) => Promise<T>,
): Promise<T> {
  const programs = await findPrograms(Math.max(serverMajor, server.major), places);
  return server.withNewDatabase(async (fresh) => {
    await load(programs.restore, fresh.url, backup.dump);
    await inDatabase(fresh.url, async (db) => {
      const found = await readFacts(db);
      for (const [table, rows] of Object.entries(facts.rows))
        if (found.rows[table] !== rows)
          throw new BackupRefused(
            `The restore of ${table} has ${found.rows[table] ?? "no"} rows instead of ${rows}. Create another backup.`,
          );
      if (found.ledgerSum !== "0" || found.ledgerEntries !== facts.ledgerEntries)
        throw new BackupRefused(`The restored ledger does not balance: it sums to ${found.ledgerSum}.`);
      const files = new Map(secrets.map(({ name, base64 }) => [name, Buffer.from(base64, "base64")]));
      await checkSecrets(createAccountStore(db), accountSecretsOf(files));
    });
    return work(fresh);
  });
}

/**
 * Replaces database and secrets. Refuses a database or a secrets folder with content unless `isReplacing`. Control planes
 * must be stopped. The backup is loaded, checked and brought to this version beside the old database, which stays as it is until
 * both change their names in one step. Afterwards agents send again what they acknowledged since the backup.
 */
export async function restoreBackup(
  places: BackupPlaces,
  file: string,
  opening: Opening,
  isReplacing: boolean,
): Promise<Restored> {
  const { databaseUrl, secretsDir } = places;
  await removeAbandoned(places.backupsDir);
  if (!isReplacing && (await hasSecrets(secretsDir))) throw notEmpty(`The secrets folder ${secretsDir}`);
  return unseal(pathOf(places, file), opening, (backup) =>
    withDatabaseServer(databaseUrl, log, async (server) => {
      const manifest = readManifest(backup);
      const { takenAtMs } = manifest.facts;
      await server.demandRestore();
      await inDatabase(databaseUrl, async (db) => {
        if (!isReplacing && !(await isEmptyDatabase(db))) throw notEmpty("The database");
        await demandUnused(db);
      });
      return loadBeside(places, server, manifest, backup, async (fresh) => {
        await migrateDatabase(fresh.url, { log });
        await inDatabase(fresh.url, (db) => markRestored(db, takenAtMs, acknowledgedKeptMs));
        const staged = await stageSecrets(secretsDir, manifest.secrets);
        try {
          // A control plane may have started during the load.
          await inDatabase(databaseUrl, demandUnused);
          const refusedSettings = await fresh.takePlace();
          await staged.place();
          // Everything is restored; if the drop fails, the next restore repeats it.
          await fresh.dropReplaced().catch(() => {});
          return { takenAtMs, refusedSettings };
        } finally {
          await staged.discard();
        }
      });
    }),
  );
}

async function demandUnused(db: Parameters<typeof isInUse>[0]): Promise<void> {
  if (await isInUse(db))
    throw new BackupRefused(
      "A control plane used this database in the last 30 s. Stop every control plane and try again.",
    );
}

const notEmpty = (what: string) =>
  new BackupRefused(
    `${what} is not empty. Name an empty database and an empty folder, or replace their content with --replace.`,
  );

/** Lists backups, newest first. */
export async function listBackups({ backupsDir }: Pick<BackupPlaces, "backupsDir">): Promise<readonly BackupNote[]> {
  const names = await readdir(backupsDir).catch((): string[] => []);
  const notes = await Promise.all(
    names
      .filter((name) => name.endsWith(`${ending}.json`))
      .map(async (name) => JSON.parse(await readFile(join(backupsDir, name), "utf8")) as BackupNote),
  );
  return notes.filter((note) => names.includes(note.file)).toSorted((a, b) => b.takenAtMs - a.takenAtMs);
}

/** Beside the backup, and in the database, where operators see it. */
async function writeNote({ backupsDir, databaseUrl }: BackupPlaces, note: BackupNote): Promise<BackupNote> {
  await writeFile(join(backupsDir, `${note.file}.json`), `${JSON.stringify(note)}\n`, { mode: 0o600 });
  const { file, takenAtMs, sizeBytes, rows, version, verifiedAtMs } = note;
  const verifiedAt = verifiedAtMs === null ? null : new Date(verifiedAtMs);
  await inDatabase(databaseUrl, (db) =>
    noteBackup(db, { file, takenAt: new Date(takenAtMs), sizeBytes, rows, version, verifiedAt }),
  );
  return note;
}

const pathOf = ({ backupsDir }: BackupPlaces, file: string) => (file.includes("/") ? file : join(backupsDir, file));

/** Anyone who knows a recipient can create a backup, so the names of its files are not trusted. */
function readManifest({ manifest }: Unsealed): Manifest {
  const { format, secrets } = manifest as Manifest;
  if (format !== 2 || secrets.some(({ name }) => basename(name) !== name || name.startsWith("."))) throw otherVersion();
  return manifest as Manifest;
}
