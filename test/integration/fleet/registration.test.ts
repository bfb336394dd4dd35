// What a registration stores about its host.
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, expect, it, vi } from "vitest";
import type { HostId } from "../../../proto/ids.ts";
import { gpu, inventory } from "../../fakes/fleet-records.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { type Replica, startReplica } from "./replica.ts";

let postgres: TestDatabases;
let replica: Replica;
beforeAll(async () => {
  postgres = await sharedPostgres();
  replica = await startReplica(await postgres.migratedDatabase());
});
afterEach(() => void vi.useRealTimers());
afterAll(async () => {
  await replica?.stop();
  await postgres?.stop();
});

// The start of an agent decides whether usage that it does not report is billed as delivered.
it.each([3_600_000, -3_600_000])("has the database's time where the wall clock is off by %d ms", async (offMs) => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + offMs });
  const hostId = `host ${offMs}` as HostId;
  await replica.fleetStore.register(
    {
      ...{ hostId, hostname: "h", advertise: "http://127.0.0.1:9", agentVersion: "1", runId: "r", generation: 0n },
      ...{ highestEpoch: 0n, inventory: inventory({ gpus: [gpu(0)] }), ticketKey: Buffer.alloc(32) },
    },
    20_000,
  );
  const row = await replica.db
    .selectFrom("host")
    .select(sql<number>`abs(extract(epoch from now() - run_began_at))::float8`.as("begunAgo"))
    .select(sql<number>`abs(extract(epoch from now() - seen_at))::float8`.as("seenAgo"))
    .where("hostId", "=", hostId)
    .executeTakeFirstOrThrow();
  expect(row.begunAgo).toBeLessThan(600);
  expect(row.seenAgo).toBeLessThan(600);
});
