// Database of reports: a read replica while it is close enough behind the primary, otherwise the primary.
import { CamelCasePlugin, CompiledQuery, Kysely, PostgresDialect, type PostgresPool, sql } from "kysely";
import type { Logger } from "pino";
import { pause } from "../../../proto/pause.ts";
import { type OpenDatabase, openDatabase } from "./database.ts";
import { codeOf } from "./outage.ts";
import type { Database, Db } from "./schema.ts";

const checkEveryMs = 2_000;
/** Statement time limit: the primary would not finish it either. */
const queryCanceled = "57014";

export interface ReplicaSettings {
  readonly url: string;
  /** Reports use the primary while the replica is further behind. */
  readonly maxLagMs: number;
}

interface ReportDatabaseDeps {
  readonly primary: Pick<OpenDatabase, "db">;
  /** Undefined: reports use the primary. */
  readonly replica: ReplicaSettings | undefined;
  readonly maxConnections: number;
  /** Unix ms of the primary's clock. */
  readonly nowMs: () => number;
  readonly onQuery?: (database: "primary" | "replica") => void;
  readonly log: Logger;
}

export type ReportDatabase = ReturnType<typeof openReportDatabase>;

export function openReportDatabase(deps: ReportDatabaseDeps) {
  const { primary, replica: settings } = deps;
  if (!settings)
    return {
      db: primary.db,
      lagMs: (): number | undefined => undefined,
      async check() {},
      async run(_signal: AbortSignal) {},
      async close() {},
    };
  return openReplica({ ...deps, settings });
}

function openReplica(deps: ReportDatabaseDeps & { readonly settings: ReplicaSettings }) {
  const { primary, settings, nowMs, onQuery = () => {}, log } = deps;
  const replica = openDatabase(settings.url, { maxConnections: deps.maxConnections, log, connectTimeoutMs: 1_000 });
  /** Undefined: unknown, or the replica failed. */
  let lagMs: number | undefined;
  /** Undefined before the first check. */
  let isUsed: boolean | undefined;
  let isForeign = false;
  /** Control planes of this installation. Their ids are random, so no other installation has them. */
  const ours = new Set<string>();

  function setLag(now: number | undefined, cause?: unknown): void {
    lagMs = now;
    const isUsable = now !== undefined && now <= settings.maxLagMs;
    if (isUsable === isUsed) return;
    isUsed = isUsable;
    if (isUsable) log.info({ lagMs: now }, "reports use the read replica");
    else log.warn({ err: cause, lagMs: now, maxLagMs: settings.maxLagMs }, "reports use the primary database");
  }

  async function isOurs(id: string): Promise<boolean> {
    if (ours.has(id)) return true;
    const { rows } = await sql`select from replica where replica_id = ${id}`.execute(primary.db);
    if (rows.length > 0) ours.add(id);
    return rows.length > 0;
  }

  async function check(): Promise<void> {
    try {
      // Control planes write it every ten seconds. A replica that receives nothing any more falls behind by it too.
      const { rows } = await sql<{ id: string; at: Date }>`
        select replica_id as id, seen_at as at from replica order by seen_at desc limit 1`.execute(replica.db);
      const newest = rows[0];
      const wasForeign = isForeign;
      isForeign = newest !== undefined && !(await isOurs(newest.id));
      if (isForeign && !wasForeign)
        log.error("DATABASE_REPLICA_URL names a database of another installation; reports use the primary database");
      setLag(newest && !isForeign ? Math.max(0, nowMs() - newest.at.getTime()) : undefined);
    } catch (error) {
      setLag(undefined, error);
    }
  }

  const run = async (database: Db, text: string, values: readonly unknown[]) => {
    const { rows } = await database.withoutPlugins().executeQuery<object>(CompiledQuery.raw(text, [...values]));
    return { command: "SELECT" as const, rowCount: rows.length, rows };
  };

  /** A report is one statement that only reads, so it can be repeated on the primary. */
  async function query(text: string, values: readonly unknown[]) {
    if (!/^\s*(select|with|\()/i.test(text)) throw new Error(`not a report: ${text.slice(0, 60)}`);
    if (isUsed) {
      try {
        const result = await run(replica.db, text, values);
        onQuery("replica");
        return result;
      } catch (error) {
        if (codeOf(error) === queryCanceled) throw error;
        // It was cut off, cancelled by recovery, or lacks a table of this version: the next check decides.
        setLag(undefined, error);
      }
    }
    onQuery("primary");
    return run(primary.db, text, values);
  }

  // Connections are of the two pools, statement by statement.
  const client = { query: (text: string, values: readonly unknown[] = []) => query(text, values), release() {} };
  const pool = { options: {}, connect: async () => client, end: async () => {} } as unknown as PostgresPool;
  const db: Db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool }),
    plugins: [new CamelCasePlugin({ maintainNestedObjectKeys: true })],
  });
  return {
    /** For single statements that read. Throws for others, and for transactions. */
    db,
    lagMs: () => lagMs,
    check,
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await check();
        await pause(checkEveryMs, signal);
      }
    },
    close: () => replica.close(),
  };
}
