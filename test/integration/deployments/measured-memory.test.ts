// The measured memory of instances, on a real database with the figures of one host.
import { randomBytes } from "node:crypto";
import pino from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";
import { updateDeployment } from "../../../control-plane/deployments/change.ts";
import type { NewDeployment } from "../../../control-plane/deployments/store.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import { createMeasuredMemoryStore } from "../../../control-plane/store/deployments/measured-memory-store.ts";
import { type HostId, type InstanceId, randomId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, gpuDefaults } from "../fleet/replica.ts";

let postgres: TestDatabases;
let database: OpenDatabase;

beforeAll(async () => {
  postgres = await sharedPostgres();
  database = openDatabase(await postgres.migratedDatabase(), {
    maxConnections: 2,
    log: pino({ level: "silent" }),
  });
  await database.db
    .insertInto("account")
    .values({
      ...{ accountId: ada.account, email: "ada@example.com", displayName: "ada", suspendReason: null },
      ...{ wrappedDek: randomBytes(60), kekVersion: 1, deletedAt: null },
    })
    .execute();
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

it("is recorded for the batch size of the engine's start, not while fewer requests are allowed", async () => {
  const { db } = database;
  const store = createDeploymentStore(db);
  const memory = createMeasuredMemoryStore(db);
  const made: NewDeployment = {
    ...{ id: randomId<"deployment">(16), account: ada.account, kind: "model", modelName: "ada/one", version: "v" },
    ...{ task: "text-generation", type: "llm", engine: "stoker", gpu: "H100-80GB", numGpus: 1, maxBatchSize: 8 },
    ...{ minInstances: 1, maxInstances: 1, weights: { repo: "", revision: "" }, weightsToken: null },
    ...{ extraArgs: [], externalUrl: null, contextLength: 0, memoryBytes: 0 },
  };
  await store.insert(made, () => {});
  const hostId = "host-1" as HostId;
  const processes = [{ instanceId: "i-1", memoryBytes: 1000 }];
  await db
    .insertInto("host")
    .values({
      ...{ hostId, hostname: "host-1", advertise: "http://127.0.0.1:1", inventory: "{}", nodeEpoch: 1n },
      ...{ ticketKey: Buffer.alloc(32), agentVersion: "1", seenAt: new Date() },
    })
    .execute();
  await db
    .insertInto("instance")
    .values({
      ...{ instanceId: "i-1" as InstanceId, deployId: made.id, accountId: ada.account, hostId, generation: 1 },
      ...{ gpuUuids: [], phase: "ready" },
    })
    .execute();
  /** The host's figures count for half a minute: they are as new as the look. */
  const look = async () => {
    await db
      .updateTable("host")
      .set({ live: liveOf(processes), reportedAt: new Date(Date.now() + 600_000) })
      .where("hostId", "=", hostId)
      .execute();
    return memory.measure();
  };
  const letIn = (maxConcurrentRequests: number) =>
    updateDeployment(store, ada.account, made.id, { standardArgs: { maxConcurrentRequests } }, gpuDefaults);
  await letIn(4);
  expect(await look()).toBe(0);
  expect(await memory.find(made)).toBeUndefined();
  await letIn(8);
  await db.updateTable("instance").set({ spec: 2 }).execute();
  expect(await look()).toBe(1);
  expect(await memory.find(made)).toBe(1000);

  // Another host's figures for the instance do not count, and one above 64 bits does not stop the measurement of all.
  await db
    .insertInto("host")
    .values({
      ...{ hostId: "host-2" as HostId, hostname: "host-2", advertise: "http://127.0.0.1:2", inventory: "{}" },
      ...{ nodeEpoch: 2n, ticketKey: Buffer.alloc(32), agentVersion: "1", seenAt: new Date() },
      live: liveOf([{ instanceId: "i-1", memoryBytes: 5000 }]),
      reportedAt: new Date(Date.now() + 600_000),
    })
    .execute();
  processes.push({ instanceId: "i-unknown", memoryBytes: 2 ** 64 });
  expect(await look()).toBe(1);
  expect(await memory.find(made)).toBe(1000);
});

const liveOf = (processes: readonly object[]) => JSON.stringify({ gpus: [{ uuid: "GPU-1", processes }] });

it("limits the run it was measured in and no later one; a token is opened only for its owner", async () => {
  const store = createDeploymentStore(database.db);
  const made: NewDeployment = {
    ...{ id: randomId<"deployment">(16), account: ada.account, kind: "model", modelName: "ada/two", version: "v" },
    ...{ task: "text-generation", type: "llm", engine: "stoker", gpu: "H100-80GB", numGpus: 1, maxBatchSize: 8 },
    ...{ minInstances: 1, maxInstances: 1, weights: { repo: "", revision: "" }, weightsToken: Buffer.from("sealed") },
    ...{ extraArgs: [], externalUrl: null, contextLength: 0, memoryBytes: 1000, isMemoryBound: true },
  };
  await store.insert(made, () => {});
  const record = () => store.get(made.id, ada.account);
  expect(await record()).toMatchObject({ memoryBytes: 1000, isMemoryBound: true });
  // As a control plane changes it that knows nothing of claims by spec.
  const change = { extraArgs: ["--flash-attn=on"] };
  await updateDeployment(store, ada.account, made.id, change, gpuDefaults);
  expect(await record()).toMatchObject({ spec: 2, memoryBytes: 1000, isMemoryBound: false });
  expect(await store.weightsToken(made.id, ada.account)).toEqual(Buffer.from("sealed"));
  expect(await store.weightsToken(made.id, "u:bob" as typeof ada.account)).toBeNull();
});
