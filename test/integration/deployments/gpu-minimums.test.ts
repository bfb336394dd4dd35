// The GPU minimum of an account stays free for it, also with several concurrent control planes.
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import type { AccountId, DeploymentId } from "../../../proto/ids.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { ada, type Replica, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 30_000, interval: 50 };
const bob = { account: "u:bob" as AccountId, displayName: "bob", suspendReason: null };
let postgres: TestDatabases;
let replicas: Replica[];
let agents: FakeAgent[];

beforeAll(async () => {
  postgres = await sharedPostgres();
  const url = await postgres.migratedDatabase();
  replicas = [await startReplica(url, { owner: "a" }), await startReplica(url, { owner: "b" })];
  const [one, two] = replicas as [Replica, Replica];
  agents = await Promise.all(
    [one, two].map((at, n) =>
      startFakeAgent({ address: at.address, token: one.joinToken, hostId: `host-${n}`, gpus: 2 }),
    ),
  );
});
afterAll(async () => {
  for (const agent of agents ?? []) await agent.close();
  for (const replica of replicas ?? []) await replica.stop();
  await postgres?.stop();
});

it("reserves a minimum of two GPUs against six deployments of another account, and gives them to their account", async () => {
  const [one, two] = replicas as [Replica, Replica];
  await one.db
    .insertInto("account")
    .values({
      ...{ accountId: bob.account, email: "bob@example.com", displayName: "bob", suspendReason: null },
      ...{ wrappedDek: randomBytes(60), kekVersion: 1, deletedAt: null },
    })
    .execute();
  await one.db
    .insertInto("accountLimit")
    .values({ accountId: bob.account, gpuMax: "{}", gpuMin: JSON.stringify({ other: 2 }) })
    .execute();
  for (const agent of agents) {
    agent.obey("ready");
    agent.connect();
  }
  const claims = async (account: AccountId) =>
    (await one.db.selectFrom("gpuClaim").select("gpuUuid").where("accountId", "=", account).execute()).length;
  const made = await Promise.all(
    Array.from({ length: 6 }, (_, n) => replicas[n % 2]?.deploy({ modelName: `ada/m${n}` })),
  );
  await vi.waitFor(async () => expect(await claims(ada.account)).toBe(2), wait);
  const waiting = async () => {
    const all = await Promise.all(made.map((of) => one.get(of?.id as DeploymentId)));
    return all.flatMap((of) => of?.pendingReasons ?? []).filter(({ why }) => why.includes("reserved for accounts"));
  };
  // Two for want of a place on each of two hosts say so of both.
  await vi.waitFor(async () => expect((await waiting()).length).toBeGreaterThanOrEqual(4), wait);
  for (let round = 0; round < 5; round++) await Promise.all(replicas.map((replica) => replica.controller.pass()));
  expect(await claims(ada.account)).toBe(2);

  await two.deploy({ modelName: "bob/a" }, bob);
  await one.deploy({ modelName: "bob/b" }, bob);
  await vi.waitFor(async () => expect(await claims(bob.account)).toBe(2), wait);
  expect(await claims(ada.account)).toBe(2);
});
