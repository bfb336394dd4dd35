// P9 of promises, for the control plane: one is killed while deployments are in every step of their lives, and
// what it had claimed for itself stays claimed. What ends agents and engines in each step: test/docker/life-on-own-engine.ts.
import { sql } from "kysely";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { deleteDeployment } from "../../../control-plane/deployments/change.ts";
import type { DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, type Replica, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 30_000, interval: 50 };
/** What an instance reports, and what its deployment is called meanwhile. */
const coming = {
  pending: "initializing",
  downloading: "downloading",
  creating: "deploying",
  loading: "deploying",
  ready: "deployed",
} as const;
let postgres: TestDatabases;
const replicas: Replica[] = [];
const agents: FakeAgent[] = [];

beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(async () => {
  for (const agent of agents) await agent.close();
  for (const replica of replicas) await replica.stop();
  await postgres?.stop();
});

it("each is deployed once or deleted, on its previous GPUs, although the control plane was killed", async () => {
  const url = await postgres.migratedDatabase();
  const first = await startReplica(url, { owner: "first" });
  replicas.push(first);
  const joined = async (hostId: string, replica: Replica) => {
    const agent = await startFakeAgent({ address: replica.address, token: first.joinToken, hostId, gpus: 8 });
    agents.push(agent);
    agent.connect();
    return agent;
  };
  const agent = await joined("host-1", first);
  agent.obeyEach(({ servedModelName }) => ({
    phase: servedModelName.slice(4) in coming ? servedModelName.slice(4) : "ready",
  }));
  const deploy = async (name: string, numGpus = 1) => (await first.deploy({ modelName: `ada/${name}`, numGpus })).id;
  const statusOf = async (replica: Replica, id: DeploymentId) => (await replica.get(id))?.status;

  const ids = new Map<string, DeploymentId>();
  for (const name of [...Object.keys(coming), "draining", "deleted"]) ids.set(name, await deploy(name));
  const id = (name: string) => ids.get(name) as DeploymentId;
  const instances = () =>
    first.db.selectFrom("instance").select(["instanceId", "deployId", "gpuUuids"]).orderBy("instanceId").execute();
  await vi.waitFor(async () => {
    for (const [name, status] of Object.entries(coming)) expect(await statusOf(first, id(name)), name).toBe(status);
    for (const name of ["draining", "deleted"]) expect(await statusOf(first, id(name)), name).toBe("deployed");
  }, wait);
  // One GPU is left, and this needs four.
  ids.set("queued", await deploy("queued", 4));
  await vi.waitFor(async () => {
    expect((await first.get(id("queued")))?.pendingReasons).toMatchObject([{ host: "host-1" }]);
  }, wait);
  await deleteDeployment(first.deploymentStore, ada.account, id("deleted"));
  await vi.waitFor(async () => expect(await instances()).toHaveLength(6), wait);
  // Its host does not confirm that it is gone.
  agent.stopObeying();
  const leaving = (await instances()).find((row) => row.deployId === id("draining"))?.instanceId;
  await deleteDeployment(first.deploymentStore, ada.account, id("draining"));
  await vi.waitFor(() => expect(agent.desired?.tombstones).toEqual([leaving]), wait);
  const before = (await instances()).filter((row) => row.deployId !== id("draining"));

  const { port } = first;
  await first.db
    .updateTable("deployment")
    .set((eb) => ({
      ...{ lockOwner: "first", lockToken: eb("lockToken", "+", 1n) },
      lockExpiresAt: sql<Date>`now() + interval '2 seconds'`,
    }))
    .execute();
  await first.stop();
  replicas.pop();

  const second = await startReplica(url, { owner: "second", port });
  replicas.push(second);
  agent.disconnect();
  agent.connect();
  agent.obey("ready");
  const other = await joined("host-2", second);
  other.obey("ready");
  await vi.waitFor(async () => {
    for (const name of [...Object.keys(coming), "queued"]) {
      expect(await statusOf(second, id(name)), name).toBe("deployed");
      expect(second.routing.ready(id(name)), name).toHaveLength(1);
    }
    // Confirmed, and nothing of it is left.
    expect(await second.deploymentStore.instances(id("draining"))).toEqual([]);
  }, wait);
  for (const name of ["draining", "deleted"]) expect(await statusOf(second, id(name))).toBe("deleted");
  // What was placed stays where it is, under its name; only the one that waited was placed anew.
  const after = await second.db
    .selectFrom("instance")
    .select(["instanceId", "deployId", "gpuUuids"])
    .orderBy("instanceId")
    .execute();
  expect(after.filter((row) => row.deployId !== id("queued"))).toEqual(before);
  expect(after).toHaveLength(6);
  const claims = await second.db.selectFrom("gpuClaim").select("gpuUuid").execute();
  expect(claims.map((row) => row.gpuUuid).sort()).toEqual(after.flatMap((row) => row.gpuUuids).sort());
  expect(agent.tombstonesSeen.filter((one) => after.some((row) => row.instanceId === one))).toEqual([]);
}, 120_000);
