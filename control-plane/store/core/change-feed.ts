// Announced changes as rows with a sequence. NOTIFY only wakes readers: every replica also reads new rows each second and after
// each reconnect, so a lost message delays a change by one second.
import { sql } from "kysely";
import type pg from "pg";
import type { Logger } from "pino";
import { pause } from "../../../proto/pause.ts";
import { WakeablePause } from "../../../proto/repeat.ts";
import type { Trx } from "./schema.ts";

const channel = "stoker_change";
/** Any constant that no other advisory lock of ours uses. */
const commitOrderLock = 7_205_001;
const pollMs = 1_000;
const pageSize = 1_000;

/**
 * Notifies every replica, including this one, that the subjects changed, when the writer's transaction commits. Call it last:
 * announcements are serialised until the commit, so that sequence order is commit order and a reader past N never misses an
 * N-1 that commits later.
 */
export async function announce(trx: Trx, topic: string, ...subjects: readonly string[]): Promise<void> {
  if (subjects.length === 0) return;
  await sql`select pg_advisory_xact_lock(${sql.lit(commitOrderLock)})`.execute(trx);
  await trx
    .insertInto("change")
    .values(subjects.map((subject) => ({ topic, subject })))
    .execute();
  await sql`select pg_notify(${sql.lit(channel)}, '')`.execute(trx);
}

export interface ChangeFeed {
  /** Handlers run in sequence order and must be cheap; one that throws is logged and does not stop the others. */
  on(topic: string, handler: (subject: string) => void): void;
  /** Starts at the current end of the feed: load caches after this. Throws when the database is unavailable. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Replaces NOTIFY behind a connection pooler: the first replica that reads a row wakes the others. Lossy. */
export interface FeedWake {
  publish(message: string): void;
  on(handler: (message: string) => void): void;
}

export function createChangeFeed(deps: {
  readonly pool: pg.Pool;
  readonly log: Logger;
  readonly wake?: FeedWake;
}): ChangeFeed {
  const handlers = new Map<string, ((subject: string) => void)[]>();
  const stopping = new AbortController();
  let position = 0n;
  let client: pg.PoolClient | undefined;
  let running: Promise<void> | undefined;
  const untilNext = new WakeablePause();
  const { wake } = untilNext;
  /** Highest sequence that any replica has read; published once. */
  let known = 0n;
  deps.wake?.on((message) => {
    if (!/^\d{1,18}$/.test(message)) return;
    const seq = BigInt(message);
    if (seq > known) known = seq;
    if (seq > position) wake();
  });

  async function connect(): Promise<pg.PoolClient> {
    const fresh = await deps.pool.connect();
    fresh.on("error", onClientError);
    fresh.on("notification", wake);
    client = fresh;
    await fresh.query(`listen ${channel}`);
    return fresh;
  }

  function drop(error: unknown): void {
    const broken = client;
    client = undefined;
    if (!broken) return;
    broken.off("notification", wake);
    broken.release(error instanceof Error ? error : true);
  }

  const onClientError = (error: Error) => {
    deps.log.warn({ err: error }, "change feed lost its connection");
    drop(error);
    wake();
  };

  function dispatch(topic: string, subject: string): void {
    for (const handler of handlers.get(topic) ?? []) {
      try {
        handler(subject);
      } catch (error) {
        deps.log.error({ err: error, topic }, "change handler failed");
      }
    }
  }

  async function readOn(): Promise<void> {
    const reader = client ?? (await connect());
    for (;;) {
      const { rows } = await reader.query<{ seq: bigint; topic: string; subject: string }>(
        `select seq, topic, subject from change where seq > $1 order by seq limit ${pageSize}`,
        [position.toString()],
      );
      for (const row of rows) {
        position = row.seq;
        dispatch(row.topic, row.subject);
      }
      if (rows.length < pageSize) break;
    }
    if (position <= known) return;
    known = position;
    deps.wake?.publish(position.toString());
  }

  async function loop(): Promise<void> {
    let isUnavailable = false;
    while (!stopping.signal.aborted) {
      try {
        await readOn();
        if (isUnavailable) deps.log.info("change feed reads again");
        isUnavailable = false;
      } catch (error) {
        if (!isUnavailable) deps.log.warn({ err: error }, "could not read the change feed; retrying every second");
        isUnavailable = true;
        drop(error);
      }
      await untilNext.wait(pollMs, stopping.signal);
      // A broken connection wakes the loop at once, which must not become a busy loop during an outage.
      if (isUnavailable && !stopping.signal.aborted) await pause(250, stopping.signal);
    }
  }

  return {
    on(topic, handler) {
      handlers.set(topic, [...(handlers.get(topic) ?? []), handler]);
    },
    async start() {
      const reader = await connect();
      const { rows } = await reader.query<{ last: bigint }>("select coalesce(max(seq), 0)::bigint as last from change");
      position = rows[0]?.last ?? 0n;
      known = position;
      running = loop();
    },
    async stop() {
      stopping.abort();
      await running;
      drop(undefined);
    },
  };
}
