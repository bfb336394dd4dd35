import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chownSync,
  existsSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { identify, type ProcessIdentity } from "../../agent/process/process-identity.ts";
import { type Child, endProcess, keepAlive } from "./child.ts";
import { innerPort } from "./ports.ts";
import { type PostgresHome, postgresHome } from "./postgres-home.ts";
import { untilReady } from "./ready.ts";
import type { Step } from "./screen.ts";
import { UpError } from "./up-error.ts";
import { finishUpgrade, requireSameMajor } from "./upgrade-folders.ts";

const startLimitMs = 30_000;

/** Starts the PostgreSQL of this data folder on 127.0.0.1 and returns when it accepts connections. */
export async function startPostgres(
  dataDir: string,
  step: Step,
  warn: (line: string) => void,
  onStarted: (child: Child) => void,
  signal: AbortSignal,
) {
  const home = postgresHome(dataDir, step.note);
  step.note(`database files in ${home.folder}`);
  finishUpgrade(home.folder, step.note);
  requireSameMajor(home, dataDir);
  const { cluster, password } = await ensureCluster(home, join(dataDir, "secrets"));
  const port = await innerPort(dataDir, "postgres");
  const server = { name: "postgres", title: "PostgreSQL", home, cluster, port };
  const child = await startServer(server, { dataDir, note: step.note, warn, onStarted, signal });
  return { child, databaseUrl: databaseUrlOf(port, password) };
}

export const databaseUrlOf = (port: number, password: string): string =>
  `postgres://stoker:${password}@127.0.0.1:${port}/stoker`;

interface ServerSpec {
  /** File name of its log and record. */
  readonly name: string;
  readonly title: string;
  readonly home: PostgresHome;
  readonly cluster: string;
  readonly port: number;
  /** In addition to the usual settings. */
  readonly settings?: readonly string[];
}

interface ServerStart {
  readonly dataDir: string;
  readonly note: (text: string) => void;
  readonly warn: (line: string) => void;
  readonly onStarted: (child: Child) => void;
  readonly signal: AbortSignal;
}

/** Returns when the server accepts connections. Stops one that an earlier start left on the same files. */
export async function startServer(
  { name, title, home, cluster, port, settings: more = [] }: ServerSpec,
  { dataDir, note, warn, onStarted, signal }: ServerStart,
): Promise<Child> {
  const left = await stopOrphan(cluster);
  if (left !== undefined) note(`stopped the PostgreSQL of an earlier start (pid ${left})`);
  const child = keepAlive(
    {
      name,
      title,
      command: join(home.bin, "postgres"),
      args: ["-D", cluster, ...settings(port), ...more.flatMap((setting) => ["-c", setting])],
      env: { LC_ALL: "C", PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
      cwd: home.folder,
      runAs: home.runAs,
      stopSteps,
      beforeRestart: async () => void (await stopOrphan(cluster)),
    },
    dataDir,
    warn,
  );
  onStarted(child);
  await untilReady({ child, title, dataDir, limitMs: startLimitMs, signal }, async () =>
    isReady(cluster, child.pid() ?? 0),
  );
  return child;
}

const settings = (port: number): string[] =>
  [
    `port=${port}`,
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    // Enough for four control planes with 16 connections each, their job queues and psql.
    "max_connections=120",
    "logging_collector=off",
    "log_line_prefix=%m [%p] ",
  ].flatMap((setting) => ["-c", setting]);

const limitMs = 120_000;

/** Creates the cluster in a draft folder that is renamed when complete. Returns the folder of the cluster and the password of its user `stoker`. */
async function ensureCluster(
  home: PostgresHome,
  secretsDir: string,
): Promise<{ readonly cluster: string; readonly password: string }> {
  const cluster = join(home.folder, "cluster");
  if (existsSync(cluster)) return { cluster, password: readPassword(secretsDir) };
  const password = randomBytes(24).toString("base64url");
  const draft = join(home.folder, "cluster.draft");
  try {
    await createCluster(home, draft, password);
    // Write the password before the rename, because the cluster is unusable without it.
    writeFileSync(passwordPath(secretsDir), `${password}\n`, { mode: 0o600, flush: true });
    renameSync(draft, cluster);
    return { cluster, password };
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

const passwordPath = (secretsDir: string): string => join(secretsDir, "postgres.password");

/** Throws UpError if there is no password of the user `stoker`. */
export function readPassword(secretsDir: string): string {
  const secret = passwordPath(secretsDir);
  if (existsSync(secret)) return readFileSync(secret, "utf8").trim();
  throw new UpError(`The password of the database is missing: ${secret}. Restore it, or use a new --data folder.`);
}

/** Creates files of an empty database `stoker` in `draft`, replacing what is there. */
export async function createCluster(home: PostgresHome, draft: string, password: string): Promise<void> {
  const passwordFile = join(home.folder, "password.draft");
  rmSync(draft, { recursive: true, force: true });
  try {
    writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
    if ("uid" in home.runAs) chownSync(passwordFile, home.runAs.uid, home.runAs.gid);
    await runTool(home, "initdb", [
      ...["-D", draft, "--username=stoker", "--auth=scram-sha-256", `--pwfile=${passwordFile}`, "--encoding=UTF8"],
      ...["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"],
    ]);
    await runTool(home, "postgres", ["--single", "-D", draft, "postgres"], "CREATE DATABASE stoker;\n");
  } finally {
    rmSync(passwordFile, { force: true });
  }
}

function runTool(home: PostgresHome, tool: string, args: readonly string[], input = ""): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(join(home.bin, tool), args, {
      ...home.runAs,
      cwd: home.folder,
      env: { LC_ALL: "C", PATH: process.env["PATH"] ?? "/usr/bin:/bin" },
      timeout: limitMs,
      stdio: ["pipe", "pipe", "pipe"],
    });
    let output = "";
    const keep = (chunk: Buffer): void => {
      output = (output + chunk.toString()).slice(-2000);
    };
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    child.stdin.on("error", () => {});
    child.stdin.end(input);
    child.once("error", (cause) =>
      reject(new UpError(`PostgreSQL's ${tool} did not start: ${cause.message}.`, { cause })),
    );
    child.once("close", (code, signal) => {
      if (code === 0 && !/(ERROR|FATAL):/.test(output)) resolve();
      else reject(new UpError(`PostgreSQL's ${tool} failed (${signal ?? code}): ${lastLine(output)}`));
    });
  });
}

const lastLine = (text: string): string => {
  const lines = text.trim().split("\n");
  return lines.find((line) => /(ERROR|FATAL|error):/.test(line)) ?? lines.at(-1) ?? "no output";
};

/** SIGINT is PostgreSQL's fast shutdown, SIGQUIT the immediate one with recovery at the next start. */
const stopSteps = [
  { signal: "SIGINT", waitMs: 12_000 },
  { signal: "SIGQUIT", waitMs: 5_000 },
  { signal: "SIGKILL", waitMs: 2_000 },
] as const;

/** PostgreSQL survives a killed parent. Returns the pid of the stopped process, if any. */
async function stopOrphan(cluster: string): Promise<number | undefined> {
  const pid = Number(postmasterFile(cluster)?.[0]);
  if (!Number.isInteger(pid) || pid < 2) return undefined;
  const found = identify(pid);
  if (!found || !serves(found, cluster)) return undefined;
  if (!(await endProcess(found, stopSteps))) {
    throw new UpError(`A PostgreSQL of an earlier start (pid ${pid}) does not stop. Stop it and start again.`);
  }
  return pid;
}

function isReady(cluster: string, pid: number): boolean {
  const lines = postmasterFile(cluster);
  return Number(lines?.[0]) === pid && lines?.[7]?.trim() === "ready";
}

/** True if the process serves this cluster: by its working directory on Linux, otherwise by the pid file. */
function serves(candidate: ProcessIdentity, cluster: string): boolean {
  const expected = realpathSync(cluster);
  if (process.platform === "linux") {
    try {
      return readlinkSync(`/proc/${candidate.pid}/cwd`) === expected;
    } catch {
      return false;
    }
  }
  return postmasterFile(cluster)?.[1] === expected;
}

function postmasterFile(cluster: string): string[] | undefined {
  try {
    return readFileSync(join(cluster, "postmaster.pid"), "utf8").split("\n");
  } catch {
    return undefined;
  }
}
