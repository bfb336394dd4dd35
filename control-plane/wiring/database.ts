import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { Counter, Gauge, type Registry } from "prom-client";
import { pause } from "../../proto/pause.ts";
import { steadyTime } from "../../proto/steady-time.ts";
import type { ControlPlaneConfig } from "../config.ts";
import { OperatorError } from "../service-error.ts";
import { databaseTimeMs, type OpenDatabase } from "../store/core/database.ts";
import { codeOf, isDatabaseUnavailable } from "../store/core/outage.ts";
import { openReportDatabase, type ReportDatabase } from "../store/core/report-database.ts";

/** The message is for the operator: what happened, why, what to do. */
export class DatabaseNotReached extends OperatorError {
  override readonly name = "DatabaseNotReached";
  override readonly exitCode = 75;
}

/** Returns the error of a start or stop; one of PostgreSQL, which was reachable before, becomes a DatabaseNotReached. */
export function runError(error: unknown): unknown {
  if (error instanceof OperatorError || !isDatabaseUnavailable(error)) return error;
  // A file that is missing has the code of a missing socket.
  const { syscall } = error as NodeJS.ErrnoException;
  if (codeOf(error) === "ENOENT" && syscall !== "connect") return error;
  // A port of its own that cannot be used.
  if (syscall === "listen" || syscall === "bind") return error;
  const what = `PostgreSQL failed while the control plane started or stopped (${reasonOf(error)}). Start it again.`;
  return new DatabaseNotReached(what, { cause: error });
}

const reasonOf = (error: unknown): string => (error instanceof Error && error.message ? error.message : codeOf(error));

/** Retries `work` until the database is reachable, for at most `limitMs`. Throws other errors at once. */
export async function waitForDatabase<T>(
  work: () => Promise<T>,
  options: { readonly url: string; readonly limitMs: number; readonly log: Logger; readonly signal: AbortSignal },
): Promise<T> {
  const deadline = performance.now() + options.limitMs;
  let isLogged = false;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isDatabaseUnavailable(error)) throw error;
      options.signal.throwIfAborted();
      if (performance.now() >= deadline) throw new DatabaseNotReached(sentence(options, error), { cause: error });
      if (!isLogged) options.log.info({ err: error }, "waiting for PostgreSQL");
      isLogged = true;
      await wait(250, undefined, { signal: options.signal });
    }
  }
}

function sentence({ url, limitMs }: { readonly url: string; readonly limitMs: number }, error: unknown): string {
  const at = URL.parse(url);
  return (
    `PostgreSQL at ${at?.host ?? "the address of DATABASE_URL"} could not be reached within ${limitMs / 1000} s (${reasonOf(error)}). ` +
    "Start it, or correct DATABASE_URL."
  );
}

/** Database of reports, and its metrics if there is a replica. */
export function createReportDatabase(deps: {
  readonly config: Pick<ControlPlaneConfig, "databaseReplica" | "databaseConnections">;
  readonly database: OpenDatabase;
  readonly registry: Registry;
  readonly log: Logger;
}): ReportDatabase {
  const { config, database, registry, log } = deps;
  const replica = config.databaseReplica;
  if (!replica) return openReportDatabase({ primary: database, replica, maxConnections: 0, nowMs: Date.now, log });
  const statements = new Counter({
    name: "stoker_report_statements_total",
    help: "Statements of reports by the database that ran them.",
    labelNames: ["database"],
    registers: [registry],
  });
  const reports = openReportDatabase({
    primary: database,
    replica,
    maxConnections: config.databaseConnections,
    nowMs: () => steadyTime.nowMs(),
    onQuery: (of) => statements.inc({ database: of }),
    log,
  });
  const lag = new Gauge({
    name: "stoker_database_replica_lag_seconds",
    help: "Time that the read replica is behind, to about ten seconds; absent while it does not reply.",
    registers: [registry],
    collect() {
      const ms = reports.lagMs();
      if (ms === undefined) lag.remove();
      else lag.set(ms / 1000);
    },
  });
  return reports;
}

const timeEveryMs = 60_000;

/** Synchronises this process's time with the database's clock, so that all control planes agree. Sets it once before it resolves. */
export async function followDatabaseTime(db: OpenDatabase["db"], log: Logger) {
  const aim = async () => steadyTime.aim(await databaseTimeMs(db));
  await aim();
  return {
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await pause(timeEveryMs, signal);
        if (!signal.aborted)
          await aim().catch((error) => log.warn({ err: error }, "could not read the database's clock"));
      }
    },
  };
}
