// Where BullMQ keeps jobs, each a real server of a test's own that the test may kill, start again and wipe.

import { onTestFinished } from "vitest";
import type { JobsAddress } from "../../control-plane/jobs/backend.ts";
import { query } from "../e2e/spine/database.ts";
import { startPostgres, type TestPostgres } from "./postgres.ts";
import { hasRedis, startRedis, type TestRedis } from "./redis.ts";
import { startTcpLink } from "./tcp-link.ts";

export interface JobStore {
  readonly name: string;
  open(): Promise<void>;
  /** Of a queue that no other test has used. */
  fresh(): Promise<JobsAddress>;
  kill(): Promise<void>;
  restart(): Promise<void>;
  /** Every job is gone. */
  wipe(): Promise<void>;
  /** And all that was made for them. */
  unmake(): Promise<void>;
  close(): Promise<void>;
}

function inPostgres(): JobStore {
  let postgres: TestPostgres;
  let databaseUrl = "";
  return {
    name: "PostgreSQL",
    async open() {
      postgres = await startPostgres({ onDisk: true });
    },
    async fresh() {
      databaseUrl = await postgres.createDatabase();
      return { databaseUrl };
    },
    kill: () => postgres.kill9(),
    restart: () => postgres.restart(),
    async wipe() {
      const tables = await query<{ name: string }>(
        databaseUrl,
        `select format('%I.%I', schemaname, tablename) as name from pg_tables
         where schemaname = 'stoker_jobs' and tablename not like '%migration%'`,
      );
      if (tables.length === 0) throw new Error("there is no table to wipe");
      await insist(databaseUrl, `truncate ${tables.map(({ name }) => name).join(", ")} cascade`);
    },
    async unmake() {
      await insist(databaseUrl, "drop schema stoker_jobs cascade");
    },
    close: async () => postgres?.stop(),
  };
}

/** For what takes jobs away under workers: where the two wait for each other's locks PostgreSQL ends one of them. */
export async function insist(url: string, text: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await query(url, text);
      return;
    } catch (error) {
      const isDeadlock = error instanceof Error && "code" in error && error.code === "40P01";
      if (!isDeadlock || tries === 20) throw error;
    }
  }
}

function inRedis(): JobStore {
  let redis: TestRedis;
  return {
    name: "Redis",
    async open() {
      redis = await startRedis();
    },
    async fresh() {
      await redis.flush();
      return { redisUrl: redis.url };
    },
    kill: () => redis.kill9(),
    restart: () => redis.start(),
    wipe: () => redis.flush(),
    unmake: () => redis.flush(),
    close: async () => redis?.stop(),
  };
}

export const jobStores: readonly JobStore[] = hasRedis ? [inPostgres(), inRedis()] : [inPostgres()];

/** The same PostgreSQL behind a link that can lose the connections there are, until the test has ended. */
export async function linkTo(to: JobsAddress): Promise<{ readonly address: JobsAddress; lose(): void }> {
  const url = new URL("databaseUrl" in to ? to.databaseUrl : to.redisUrl);
  const link = await startTcpLink(Number(url.port));
  onTestFinished(() => link.close());
  url.port = String(link.port);
  return { address: { databaseUrl: url.href }, lose: link.lose };
}
