// Containers and agent instances run on the machinery of deployments; the surfaces of models must not show them.
import { randomBytes } from "node:crypto";
import pino from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { deleteDeployment, deleteDeployments, getDeployment } from "../../../control-plane/deployments/change.ts";
import { DeploymentNotFound } from "../../../control-plane/deployments/errors.ts";
import { type DeploymentKind, type NewDeployment, singleInstance } from "../../../control-plane/deployments/store.ts";
import { type OpenDatabase, openDatabase } from "../../../control-plane/store/core/database.ts";
import { createDeploymentStore } from "../../../control-plane/store/deployments/deployments-store.ts";
import { createFleetStore } from "../../../control-plane/store/fleet/fleet-store.ts";
import { createCatalogStore } from "../../../control-plane/store/models/catalog-store.ts";
import { type HostId, type InstanceId, randomId } from "../../../proto/ids.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada } from "../fleet/replica.ts";

const log = pino({ level: "silent" });
let postgres: TestDatabases;
let database: OpenDatabase;

beforeAll(async () => {
  postgres = await sharedPostgres();
  const url = await postgres.migratedDatabase();
  database = openDatabase(url, { maxConnections: 2, log });
  await database.db
    .insertInto("account")
    .values({
      accountId: ada.account,
      email: "ada@example.com",
      displayName: "ada",
      suspendReason: null,
      wrappedDek: randomBytes(60),
      kekVersion: 1,
      deletedAt: null,
    })
    .execute();
});
afterAll(async () => {
  await database?.close();
  await postgres?.stop();
});

describe("a deployment's kind", () => {
  it("excludes containers and agent instances from every list of models, but counts their GPUs", async () => {
    const { db } = database;
    const store = createDeploymentStore(db);
    const kinds: readonly DeploymentKind[] = ["model", "container", "agent_instance"];
    const used: number[] = [];
    const made = new Map<DeploymentKind, NewDeployment>();
    for (const kind of kinds) {
      // One name for all three: it is taken only among its own kind.
      const next = wanted(kind);
      const created = await store.insert(next, (use) => void used.push(use.used));
      expect(created).toMatchObject({ kind, status: "initializing" });
      expect(await store.insert(wanted(kind), () => {})).toBe("name_taken");
      made.set(kind, next);
    }
    expect(used).toEqual([0, 2, 4]);
    const model = made.get("model") as NewDeployment;
    const container = made.get("container") as NewDeployment;

    await db
      .insertInto("host")
      .values({
        hostId: "host-1" as HostId,
        hostname: "host-1",
        advertise: "http://127.0.0.1:1",
        inventory: "{}",
        nodeEpoch: 1n,
        ticketKey: Buffer.alloc(32),
        agentVersion: "1",
        seenAt: new Date(),
      })
      .execute();
    for (const { id } of made.values())
      await db
        .insertInto("instance")
        .values({
          instanceId: `i-${id}` as InstanceId,
          deployId: id,
          accountId: ada.account,
          hostId: "host-1" as HostId,
          generation: 1,
          gpuUuids: [],
          phase: "ready",
        })
        .execute();

    const seal = { seal: (key: Buffer) => key, open: (sealed: Buffer) => sealed };
    expect((await createFleetStore(db, seal).readyInstances()).map((one) => one.deployId)).toEqual([model.id]);
    const catalog = createCatalogStore(db);
    expect((await catalog.deployed()).map((one) => one.deployId)).toEqual([model.id]);
    expect((await store.list(ada.account, "model", undefined)).map((one) => one.id)).toEqual([model.id]);
    expect((await store.list(ada.account, "container", undefined)).map((one) => one.id)).toEqual([container.id]);
    await expect(getDeployment(store, ada.account, container.id)).rejects.toThrow(DeploymentNotFound);
    expect(await getDeployment(store, ada.account, container.id, "container")).toMatchObject({ id: container.id });
    // Whoever leaves takes everything along.
    await deleteDeployments(store, { account: ada.account, ip: "" });
    expect((await store.list(ada.account, undefined, undefined)).map((one) => one.status)).toEqual(
      Array(3).fill("deleted"),
    );
  });

  it("of a rented machine is audited from creation to deletion, with the address of the caller", async () => {
    const store = createDeploymentStore(database.db);
    const [container, model] = [wanted("container"), wanted("model")].map((one) => ({
      ...one,
      act: { by: "u:person", ip: "203.0.113.9", note: "" },
    }));
    for (const one of [container, model] as NewDeployment[]) {
      await store.insert(one, () => {});
      await deleteDeployment(store, ada.account, one.id, one.kind, { by: "u:person", ip: "203.0.113.10", note: "" });
    }
    const rows = await database.db
      .selectFrom("audit")
      .select(["subject", "action", "actor", "ip"])
      .where("subject", "in", [container?.id ?? "", model?.id ?? ""])
      .orderBy("auditId")
      .execute();
    const common = { actor: "u:person" };
    expect(rows).toEqual([
      { ...common, subject: container?.id, action: "container.create", ip: "203.0.113.9" },
      { ...common, subject: container?.id, action: "container.delete", ip: "203.0.113.10" },
      { ...common, subject: model?.id, action: "deployment.delete", ip: "203.0.113.10" },
    ]);
  });
});

function wanted(kind: DeploymentKind): NewDeployment {
  return {
    ...singleInstance,
    id: randomId<"deployment">(16),
    account: ada.account,
    kind,
    modelName: "ada/one",
    version: "v",
    task: "text-generation",
    type: "llm",
    engine: kind === "model" ? "stoker" : kind,
    gpu: "H100-80GB",
    numGpus: 2,
  };
}
