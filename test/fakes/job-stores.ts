// Where BullMQ keeps jobs, each a real server of a test's own that the test may kill, start again and wipe.
import type { JobsAddress } from "../../control-plane/jobs/backend.ts";
import { query } from "../e2e/spine/database.ts";
import { startPostgres, type TestPostgres } from "./postgres.ts";
import { hasRedis, startRedis, type TestRedis } from "./redis.ts";

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
      await query(databaseUrl, `truncate ${tables.map(({ name }) => name).join(", ")} cascade`);
    },
    async unmake() {
      await query(databaseUrl, "drop schema stoker_jobs cascade");
    },
    close: async () => postgres?.stop(),
  };
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
