import { join } from "node:path";
import { type Child, keepAlive } from "./child.ts";
import { ensureCluster } from "./initdb.ts";
import { innerPort } from "./ports.ts";
import { postgresHome } from "./postgres-home.ts";
import { isReady, stopOrphan, stopSteps } from "./postmaster.ts";
import { untilReady } from "./ready.ts";
import type { Step } from "./screen.ts";

const startLimitMs = 30_000;

export interface Postgres {
  readonly child: Child;
  readonly databaseUrl: string;
}

/** Starts the PostgreSQL of this data folder on 127.0.0.1 and returns when it accepts connections. */
export async function startPostgres(
  dataDir: string,
  step: Step,
  warn: (line: string) => void,
  onStarted: (child: Child) => void,
  signal: AbortSignal,
): Promise<Postgres> {
  const home = postgresHome(dataDir, step.note);
  step.note(`database files in ${home.folder}`);
  const { cluster, password } = await ensureCluster(home, join(dataDir, "secrets"));
  const left = await stopOrphan(cluster);
  if (left !== undefined) step.note(`stopped the PostgreSQL of an earlier start (pid ${left})`);
  const port = await innerPort(dataDir, "postgres");
  const child = keepAlive(
    {
      name: "postgres",
      title: "PostgreSQL",
      command: join(home.bin, "postgres"),
      args: ["-D", cluster, ...settings(port)],
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
  await untilReady({ child, title: "PostgreSQL", dataDir, limitMs: startLimitMs, signal }, async () =>
    isReady(cluster, child.pid() ?? 0),
  );
  return { child, databaseUrl: `postgres://stoker:${password}@127.0.0.1:${port}/stoker` };
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
