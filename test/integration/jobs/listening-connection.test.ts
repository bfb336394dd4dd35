// BullMQ's listening connection to a real PostgreSQL, closed while the server still sends errors.
import type { EventEmitter } from "node:events";
import { PostgresConnection } from "bullmq";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ListeningConnection } from "../../../control-plane/jobs/backend.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";

let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres.stop());

/** Closes the connection and then has its client report what a server sends as it stops. */
async function closeUnderError(Connection: typeof PostgresConnection): Promise<unknown> {
  const connection = new Connection({ connectionString: await postgres.createDatabase(), max: 1 });
  const client = (await connection.getListenClient()) as unknown as EventEmitter;
  const closed = connection.close();
  await Promise.resolve();
  try {
    client.emit("error", new Error("terminating connection due to administrator command"));
    return undefined;
  } catch (error) {
    return error;
  } finally {
    await closed;
  }
}

it("survives an error that arrives while it closes", async () => {
  expect(await closeUnderError(ListeningConnection)).toBeUndefined();
});

it("is needed: BullMQ's own connection throws that error", async () => {
  expect(await closeUnderError(PostgresConnection)).toBeInstanceOf(Error);
});
