// BullMQ's listening connection to a real PostgreSQL that sends errors when nobody expects them.
import type { EventEmitter } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { PostgresConnection } from "bullmq";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ListeningConnection } from "../../../control-plane/jobs/backend.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** Closes the connection and then has its client report what a server sends as it stops. */
type Connections = new (config: { connectionString: string; max: number }) => PostgresConnection;

async function closeUnderError(Connection: Connections): Promise<unknown> {
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

/** `ReadyForQuery` of a server outside of a transaction. */
const ready = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]);

/** `ErrorResponse` of a server that was killed. */
function fatalError(): Buffer {
  const fields = Buffer.from("SFATAL\0VFATAL\0C57P01\0Mterminating connection due to unexpected postmaster exit\0\0");
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

/** Link to PostgreSQL in which each connection's first `ReadyForQuery` arrives together with an error, as at a busy process. */
async function startLink(url: string) {
  const server = createServer((socket) => {
    const upstream = connect(Number(new URL(url).port), "127.0.0.1");
    let isReady = false;
    upstream.on("data", (chunk) => {
      const at = chunk.indexOf(ready);
      const isFirst = !isReady && at >= 0;
      isReady ||= isFirst;
      if (isFirst) socket.end(Buffer.concat([chunk.subarray(0, at + ready.length), fatalError()]));
      else if (!isReady) socket.write(chunk);
    });
    socket.on("data", (chunk) => upstream.write(chunk));
    for (const one of [socket, upstream])
      one
        .on("error", () => {})
        .on("close", () => {
          socket.destroy();
          upstream.destroy();
        });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const linked = new URL(url);
  linked.port = String((server.address() as AddressInfo).port);
  return { url: linked.href, close: () => new Promise((resolve) => server.close(resolve)) };
}

/** Errors of this process that nothing caught while a connection of `Connection` is opened. */
async function uncaughtAtReady(Connection: Connections): Promise<readonly unknown[]> {
  const link = await startLink(await postgres.createDatabase());
  const uncaught: unknown[] = [];
  const others = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException").on("uncaughtException", (error) => uncaught.push(error));
  const connection = new Connection({ connectionString: link.url, max: 2 });
  try {
    const client = await connection.getListenClient();
    await expect(client.query("select 1")).rejects.toThrow();
  } finally {
    await connection.close().catch(() => {});
    await link.close();
    process.removeAllListeners("uncaughtException");
    for (const other of others) process.on("uncaughtException", other);
  }
  return uncaught;
}

it("survives an error that arrives together with the end of its start", async () => {
  expect(await uncaughtAtReady(ListeningConnection)).toEqual([]);
});

it("needs to: BullMQ's own connection ends the process", async () => {
  expect(await uncaughtAtReady(PostgresConnection)).toEqual([expect.objectContaining({ code: "57P01" })]);
});

it("checks a silent connection after ten seconds", async () => {
  const connection = new ListeningConnection({ connectionString: await postgres.createDatabase(), max: 1 });
  try {
    expect(connection.pool).toMatchObject({ options: { keepAliveInitialDelayMillis: 10_000 } });
  } finally {
    await connection.close();
  }
});

it("survives an error that arrives while it closes", async () => {
  expect(await closeUnderError(ListeningConnection)).toBeUndefined();
});

it("is needed: BullMQ's own connection throws that error", async () => {
  expect(await closeUnderError(PostgresConnection)).toBeInstanceOf(Error);
});
