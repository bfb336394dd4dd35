// What operators see of every account's deployments, what they do to them, and the events of the fleet, on real PostgreSQL.
import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { deleteDeployment, restartDeployment, stopDeployment } from "../../../control-plane/deployments/change.ts";
import { DeploymentNotFound } from "../../../control-plane/deployments/errors.ts";
import { type DeploymentKind, type NewDeployment, singleInstance } from "../../../control-plane/deployments/store.ts";
import { createOversight, type Oversight } from "../../../control-plane/oversight/oversight.ts";
import { createTop } from "../../../control-plane/oversight/top.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import { createOversightStore } from "../../../control-plane/store/deployments/oversight-store.ts";
import { createTopStore } from "../../../control-plane/store/deployments/top-store.ts";
import { createHostOperationStore } from "../../../control-plane/store/fleet/host-operation-store.ts";
import { type AccountId, type DeploymentId, type HostId, type InstanceId, randomId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";

const log = pino({ level: "silent" });
const [ada, bob] = ["u:ada", "u:bob"] as [AccountId, AccountId];
const operator = { by: "u:operator", ip: "203.0.113.9", note: "the engine hangs" };
let postgres: TestDatabases;
let database: OpenDatabase;
let oversight: Oversight;
const viewed: AccountId[] = [];

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());

beforeEach(async () => {
  database = openDatabase(await postgres.migratedDatabase(), { maxConnections: 4, log });
  const { db } = database;
  for (const account of [ada, bob])
    await db
      .insertInto("account")
      .values({
        accountId: account,
        email: `${account.slice(2)}@example.com`,
        displayName: account.slice(2),
        suspendReason: null,
        wrappedDek: randomBytes(60),
        kekVersion: 1,
        deletedAt: null,
      })
      .execute();
  for (const hostId of ["host-1", "host-2"] as HostId[])
    await db
      .insertInto("host")
      .values({
        hostId,
        hostname: `gpu-${hostId}`,
        advertise: "http://127.0.0.1:1",
        inventory: "{}",
        nodeEpoch: 1n,
        ticketKey: Buffer.alloc(32),
        agentVersion: "1.2.3",
        seenAt: new Date(),
      })
      .execute();
  const store = createDeploymentStore(db);
  const notHere = () => Promise.reject(new Error("not part of this test"));
  oversight = createOversight({
    noteView: async (account) => void viewed.push(account),
    store: createOversightStore(db),
    deployments: {
      stop: ({ account }, id, act) => stopDeployment(store, account, id, act),
      restart: ({ account }, id, act) => restartDeployment(store, account, id, act),
      remove: ({ account }, id, act) => deleteDeployment(store, account, id, "model", act),
      start: notHere,
      logs: async () => [{ at: "1", line: "loading" }],
    },
    containers: { remove: ({ account }, id, act) => deleteDeployment(store, account, id, "container", act) },
    agentInstances: { stop: notHere, start: notHere, restart: notHere, remove: notHere },
  });
  return () => database.close();
});

async function made(account: AccountId, name: string, kind: DeploymentKind = "model"): Promise<DeploymentId> {
  const next: NewDeployment = {
    ...singleInstance,
    id: randomId<"deployment">(16) as DeploymentId,
    account,
    kind,
    modelName: name,
    version: "1",
    task: "text-generation",
    engine: "stoker",
    gpu: "L40S-48GB",
    memoryBytes: 0,
  };
  await createDeploymentStore(database.db).insert(next, () => {});
  return next.id;
}

async function placed(id: DeploymentId, account: AccountId, host: string): Promise<InstanceId> {
  const instanceId = `i-${id}-${host}` as InstanceId;
  await database.db
    .insertInto("instance")
    .values({
      instanceId,
      deployId: id,
      accountId: account,
      hostId: host as HostId,
      generation: 1,
      gpuUuids: ["GPU-1"],
      phase: "pending",
    })
    .execute();
  return instanceId;
}

const said = (instance: InstanceId, phase: string, code = "", message = "") =>
  sql`update instance set phase = ${phase}, fail_code = ${code}, fail_message = ${message}
    where instance_id = ${instance}`.execute(database.db);

const kindsOf = async (filter: Parameters<Oversight["events"]>[0]) =>
  (await oversight.events(filter, undefined, 100)).events.map(({ kind }) => kind).reverse();

describe("an operator's list", () => {
  it("shows every account's deployments of every kind with their hosts, and filters them", async () => {
    const chat = await made(ada, "ada/chat");
    const rented = await made(ada, "workstation", "container");
    const other = await made(bob, "bob/chat");
    await placed(chat, ada, "host-1");
    await placed(other, bob, "host-2");

    const ids = async (filter: Parameters<Oversight["list"]>[0]) =>
      (await oversight.list(filter, undefined, 10)).page.map(({ deployment }) => deployment.id);
    expect(await ids({})).toEqual([other, rented, chat]);
    expect(await ids({ account: ada })).toEqual([rented, chat]);
    expect(await ids({ kind: "container" })).toEqual([rented]);
    expect(await ids({ name: "CHAT" })).toEqual([other, chat]);
    expect(await ids({ host: "host-1" as HostId })).toEqual([chat]);
    expect(await ids({ gpu: "H100-80GB" })).toEqual([]);
    expect(await ids({ statuses: ["deleted"] })).toEqual([]);
    expect(await oversight.get(chat)).toMatchObject({
      owner: { account: ada, email: "ada@example.com", suspendReason: null },
      instances: [{ host: "host-1", hostname: "gpu-host-1", phase: "pending", gpuUuids: ["GPU-1"], trouble: "" }],
    });
  });

  it("is read in pages", async () => {
    const all = [await made(ada, "a/1"), await made(ada, "a/2"), await made(bob, "b/3")].reverse();
    const first = await oversight.list({}, undefined, 2);
    expect(first.page.map(({ deployment }) => deployment.id)).toEqual(all.slice(0, 2));
    const second = await oversight.list({}, first.nextCursor ?? "", 2);
    expect(second).toMatchObject({ nextCursor: null, page: [{ deployment: { id: all[2] } }] });
    await expect(oversight.list({}, "not a cursor!", 2)).rejects.toMatchObject({ code: "bad_cursor" });
  });
});

describe("an operator's intervention", () => {
  it("stops, restarts and deletes other accounts' deployments, audited with the operator and the reason", async () => {
    const id = await made(bob, "bob/chat");
    const instance = await placed(id, bob, "host-1");
    await said(instance, "ready");
    await oversight.restart(id, operator);
    await oversight.stop(id, operator);
    expect((await oversight.get(id)).deployment).toMatchObject({ status: "stopping", generation: 2 });
    await oversight.remove(id, operator);

    const audited = await sql<object>`select actor, action, subject, account_id as account, ip, note from audit
      where subject = ${id} order by audit_id`.execute(database.db);
    const common = { actor: operator.by, subject: id, account: bob, ip: operator.ip, note: operator.note };
    expect(audited.rows).toEqual([
      { ...common, action: "deployment.restart" },
      { ...common, action: "deployment.stop" },
      { ...common, action: "deployment.delete" },
    ]);
  });

  it("is audited on the operator's own deployment too", async () => {
    const id = await made(ada, "ada/own");
    await oversight.stop(id, { ...operator, by: ada });
    const audited = await sql<object>`select actor, action, note from audit where subject = ${id}`.execute(database.db);
    expect(audited.rows).toEqual([{ actor: ada, action: "deployment.stop", note: operator.note }]);
  });

  it("ends a container only by deletion, because its data ends with it", async () => {
    const id = await made(ada, "workstation", "container");
    await expect(oversight.stop(id, operator)).rejects.toMatchObject({ code: "wrong_state" });
    await expect(oversight.restart(id, operator)).rejects.toMatchObject({ code: "wrong_state" });
    await oversight.remove(id, operator);
    expect((await oversight.get(id)).deployment.status).toBe("deleted");
    await expect(oversight.stop("unknown" as DeploymentId, operator)).rejects.toThrow(DeploymentNotFound);
  });
});

describe("logs of another account", () => {
  it("are read with an entry of the audit log", async () => {
    viewed.length = 0;
    const id = await made(bob, "bob/chat");
    const lines = await oversight.logs(id, operator, { limit: 1 }, new AbortController().signal);
    expect(lines).toEqual([{ at: "1", line: "loading" }]);
    expect(viewed).toEqual([bob]);
  });
});

describe("events", () => {
  it("record the life of a deployment, with the reason of a failure", async () => {
    const id = await made(ada, "ada/chat");
    const instance = await placed(id, ada, "host-1");
    await said(instance, "downloading");
    // Progress within a phase is no event.
    await sql`update instance set bytes_done = 5 where instance_id = ${instance}`.execute(database.db);
    await said(instance, "failed", "out_of_memory", "the model needs 80 GB");
    await sql`update deployment set status = 'failed', fail_reason = 'out_of_memory: it needs 80 GB' where deploy_id = ${id}`.execute(
      database.db,
    );
    await sql`update instance set tombstoned_at = now() where instance_id = ${instance}`.execute(database.db);

    const { events } = await oversight.eventsOf(ada, id, undefined, 100);
    expect(events.toReversed().map(({ kind, host, reason }) => [kind, host, reason])).toEqual([
      ["deployment.created", null, ""],
      ["instance.placed", "host-1", ""],
      ["instance.downloading", "host-1", ""],
      ["instance.failed", "host-1", "out_of_memory: the model needs 80 GB"],
      ["deployment.failed", null, "out_of_memory: it needs 80 GB"],
      ["instance.removed", "host-1", ""],
    ]);
    await expect(oversight.eventsOf(bob, id, undefined, 100)).rejects.toThrow(DeploymentNotFound);
  });

  it("record changes of a host, its operations and its GPUs", async () => {
    const host = "host-1" as HostId;
    const operations = createHostOperationStore(database.db);
    await operations.begin({ host, deadlineMs: 60_000 }, operator);
    await operations.end(host, operator);
    await sql`update host set run_id = 'run-2', agent_version = '1.2.4', seen_at = now() where host_id = ${host}`.execute(
      database.db,
    );
    await sql`update host set live = '{}' where host_id = ${host}`.execute(database.db);
    await sql`update host set condition = 'disk full' where host_id = ${host}`.execute(database.db);
    await sql`insert into gpu_cordon (host_id, gpu_uuid, fault_id, reason) values (${host}, 'GPU-1', 'xid-79', 'fell off the bus')`.execute(
      database.db,
    );
    expect(await kindsOf({ host })).toEqual([
      "host.joined",
      "host.draining",
      "host.uncordoned",
      "host.agent_started",
      "host.unusable",
      "gpu.cordoned",
    ]);
    for (let round = 0; round < 70; round++)
      await sql`update host set condition = ${`try ${round}`} where host_id = ${host}`.execute(database.db);
    expect(await kindsOf({ host, kind: "host.unusable" })).toHaveLength(20);
    await sql`update host set identity_alert = 'cloned_identity' where host_id = ${host}`.execute(database.db);
    expect(await kindsOf({ host, kind: "host.cloned" })).toHaveLength(1);
    expect(await kindsOf({ host, kind: "gpu" })).toEqual(["gpu.cordoned"]);
    expect(await kindsOf({ kind: "host.joined" })).toEqual(["host.joined", "host.joined"]);
  });

  it("record each reason for which an instance waits once, also when reasons take turns", async () => {
    const id = await made(ada, "ada/chat");
    const instance = await placed(id, ada, "host-1");
    const [unplaced, unpulled, backOff] = ["the scheduler has not placed it", "ErrImagePull", "ImagePullBackOff"];
    for (const reason of [unplaced, unpulled, backOff, unpulled, backOff, ""])
      await said(instance, "creating", "", reason);
    // The reason of a failure is that of its own event.
    await said(instance, "failed", "start_timeout", unpulled);
    const { events } = await oversight.eventsOf(ada, id, undefined, 100);
    expect(events.toReversed().map(({ kind, state, reason }) => [kind, state, reason])).toEqual([
      ["deployment.created", "initializing", ""],
      ["instance.placed", "", ""],
      ["instance.creating", "creating", unplaced],
      ["instance.waiting", "creating", unpulled],
      ["instance.waiting", "creating", backOff],
      ["instance.failed", "failed", `start_timeout: ${unpulled}`],
    ]);
    const other = await placed(id, ada, "host-2");
    for (let round = 0; round < 70; round++) await said(other, "creating", "", `reason ${round}`);
    const waits = await oversight.events({ deployment: id, kind: "instance.waiting" }, undefined, 1000);
    expect(waits.events.filter((event) => event.instance === other)).toHaveLength(20);
  });

  it("are read in pages", async () => {
    const id = await made(ada, "ada/chat");
    const instance = await placed(id, ada, "host-1");
    for (const phase of ["downloading", "loading", "ready"]) await said(instance, phase);
    const first = await oversight.events({ deployment: id }, undefined, 3);
    const second = await oversight.events({ deployment: id }, first.nextCursor ?? "", 3);
    expect([...first.events, ...second.events].map(({ kind }) => kind)).toEqual([
      "instance.ready",
      "instance.loading",
      "instance.downloading",
      "instance.placed",
      "deployment.created",
    ]);
    expect(second.nextCursor).toBeNull();
    await expect(oversight.events({}, "5; drop table event", 3)).rejects.toMatchObject({ code: "bad_cursor" });
  });

  it("are bounded for a host that reports changes of phase without end", async () => {
    const instance = await placed(await made(ada, "ada/chat"), ada, "host-1");
    for (let round = 0; round < 200; round++) {
      await said(instance, "loading");
      await said(instance, "ready");
    }
    expect((await oversight.events({ host: "host-1" as HostId, kind: "instance" }, undefined, 1000)).events)
      // And its placement.
      .toHaveLength(301);
  });
});

describe("what uses the most", () => {
  const report = (host: string, use: number, instances: readonly object[]) =>
    sql`update host set reported_at = now(), live = ${JSON.stringify({
      gpus: [{ uuid: "GPU-1", utilizationRatio: use }],
      instances,
    })}::jsonb where host_id = ${host}`.execute(database.db);
  const used = (account: string, model: string, requests: number, spend: bigint, ago = "0 minutes") =>
    sql`insert into request_series (account_id, model, step, at, replica_id, requests, output_tokens, spend)
      values (${account}, ${model}, 1, date_trunc('minute', now()) - ${ago}::interval, 'r', ${requests}, ${10 * requests}, ${spend})`.execute(
      database.db,
    );

  it("is a model with the traffic of all its names and the GPUs of its instances, whichever host claims them", async () => {
    const chat = await made(ada, "ada/chat");
    const idle = await made(bob, "bob/chat");
    const instance = await placed(chat, ada, "host-1");
    await placed(chat, ada, "host-2");
    const foreign = await placed(idle, bob, "host-2");
    await sql`insert into public_model (model_name, deploy_id) values ('chat', ${chat})`.execute(database.db);
    await report("host-1", 0.5, [
      { instanceId: instance, inFlight: 3, waiting: 2, gpuUuids: ["GPU-1"], tokensPerSecond: 9 },
      { instanceId: foreign, inFlight: 99, waiting: 99, gpuUuids: ["GPU-1"] },
    ]);
    await used("", "ada/chat", 60, 1_000n);
    await used("", "chat", 60, 2_000n, "1 minute");
    await used("", "chat", 600, 4_000n, "30 minutes");
    await used("", "an adapter", 1, 0n);
    const top = createTop({ store: createTopStore(database.db) });
    const rows = await top.read("model", "requests", 10);
    expect(rows.map(({ id, name }) => [id, name])).toEqual([
      [chat, "chat"],
      [null, "an adapter"],
      [idle, "bob/chat"],
    ]);
    const [first] = rows;
    expect(first).toMatchObject({ gpusHeld: 2, gpuUse: 0.5, running: 3, waiting: 2, spendLastHour: 7_000n });
    expect(first?.owner).toEqual({ account: ada, email: "ada@example.com" });
    expect(first?.requestsPerSecond).toBeGreaterThan(0.9);
    expect(first?.requestsPerSecond).toBeLessThanOrEqual(2);
    expect((first?.tokensPerSecond ?? 0) / (first?.requestsPerSecond ?? 1)).toBeCloseTo(10);

    await used(bob, "", 600, 5n);
    const customers = await top.read("customer", "gpus", 10);
    expect(customers.map(({ id, name, gpusHeld }) => [id, name, gpusHeld])).toEqual([
      [ada, "ada@example.com", 2],
      [bob, "bob@example.com", 1],
    ]);
    const hosts = await top.read("host", "gpu_use", 10);
    expect(hosts).toMatchObject([{ id: "host-1", name: "gpu-host-1", gpusHeld: 1, gpuUse: 0.5, tokensPerSecond: 9 }]);
  });
});
