// Time-based actions happen when due: a job wakes a controller whose next check would be a minute later. And
// without jobs, or with an empty or unavailable queue, the regular checks do it.
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { DeploymentId, HostId } from "../../../proto/ids.ts";
import { query } from "../../e2e/spine/database.ts";
import { type FakeAgent, startFakeAgent } from "../../fakes/agent-session.ts";
import { freePort } from "../../fakes/free-port.ts";
import { insist } from "../../fakes/job-stores.ts";
import { startPostgres, type TestPostgres } from "../../fakes/postgres.ts";
import { type Replica, scaledLimits, startReplica } from "../fleet/replica.ts";

const wait = { timeout: 30_000, interval: 25 };
/** No look falls into what a test waits for. */
const seldomMs = 120_000;
const act = { by: "u:operator", ip: "127.0.0.1", note: "new fans" };
let postgres: TestPostgres;
let agents: FakeAgent[] = [];
let replicas: Replica[] = [];

beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres?.stop());
afterEach(async () => {
  for (const agent of agents) await agent.close();
  for (const replica of replicas) await replica.stop();
  agents = [];
  replicas = [];
});

async function start(url: string, options: Parameters<typeof startReplica>[1]): Promise<Replica> {
  const replica = await startReplica(url, options);
  replicas.push(replica);
  return replica;
}

async function host(replica: Replica, hostId: string): Promise<FakeAgent> {
  const agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId });
  agents.push(agent);
  agent.connect();
  agent.obey("ready");
  await vi.waitFor(
    async () => expect((await replica.snapshot()).find(({ id }) => id === hostId)).toMatchObject({ schedulable: true }),
    wait,
  );
  return agent;
}

async function serving(replica: Replica): Promise<DeploymentId> {
  const { id } = await replica.deploy();
  await vi.waitFor(() => expect(replica.routing.ready(id)).toHaveLength(1), wait);
  await vi.waitFor(async () => expect((await replica.get(id))?.status).toBe("deployed"), wait);
  return id;
}

const jobsOf = (url: string) => query<{ id: string }>(url, "select id from stoker_jobs.job where state = 'delayed'");
const queueIsThere = (url: string) => vi.waitFor(async () => expect(await jobsOf(url)).toEqual([]), wait);

/** Nothing else can take what runs there: it is let go when half of the time is over. */
async function drained(replica: Replica, agent: FakeAgent, deadlineMs: number): Promise<void> {
  await replica.hostOperations.drain(agent.hostId, deadlineMs, act);
  await vi.waitFor(() => expect(agent.tombstonesSeen).toHaveLength(1), wait);
}

describe("a job wakes a controller", () => {
  it("when a drain reaches its deadline", async () => {
    const url = await postgres.migratedDatabase();
    const replica = await start(url, { resyncMs: seldomMs, jobs: { databaseUrl: url } });
    const agent = await host(replica, "host-1");
    await serving(replica);
    await queueIsThere(url);
    await drained(replica, agent, 3_000);
    await vi.waitFor(async () => expect(await jobsOf(url)).toEqual([]), wait);
  });

  it("when a silent host counts as lost", async () => {
    const url = await postgres.migratedDatabase();
    const replica = await start(url, { resyncMs: seldomMs, limits: scaledLimits, jobs: { databaseUrl: url } });
    const agent = await host(replica, "host-1");
    const id = await serving(replica);
    await queueIsThere(url);
    agent.disconnect();
    await vi.waitFor(() => expect(replica.clocks.state(agent.hostId as HostId)).not.toBe("live"), wait);
    // As every five seconds in earnest: it finds that the host is silent, and until when that is borne.
    await replica.controller.pass();
    // There is no other host: what is wanted in its place says so.
    await vi.waitFor(async () => expect((await replica.get(id))?.pendingReasons).toHaveLength(1), wait);
    expect(replica.clocks.state(agent.hostId as HostId)).toBe("lost");
  });

  it("when the claim of a dead control plane has expired", async () => {
    const url = await postgres.migratedDatabase();
    const replica = await start(url, { resyncMs: seldomMs, jobs: { databaseUrl: url } });
    const agent = await host(replica, "host-1");
    await queueIsThere(url);
    agent.stopObeying();
    const { id } = await replica.deploy();
    await vi.waitFor(() => expect(agent.desired?.instances).toHaveLength(1), wait);
    await query(url, "update deployment set lock_owner = 'dead', lock_expires_at = now() + interval '5 seconds'");
    agent.obey("ready");
    await vi.waitFor(async () => expect(await jobsOf(url)).toHaveLength(1), wait);
    expect((await replica.get(id))?.status).not.toBe("deployed");
    await vi.waitFor(async () => expect((await replica.get(id))?.status).toBe("deployed"), wait);
  });
});

describe("regular checks do what is due", () => {
  it("when every job is deleted before its time", async () => {
    const url = await postgres.migratedDatabase();
    const replica = await start(url, { jobs: { databaseUrl: url } });
    const agent = await host(replica, "host-1");
    await serving(replica);
    await queueIsThere(url);
    await replica.hostOperations.drain("host-1", 2_000, act);
    await insist(url, "drop schema stoker_jobs cascade");
    await vi.waitFor(() => expect(agent.tombstonesSeen).toHaveLength(1), wait);
  });

  it("while the queue is unavailable", async () => {
    const url = await postgres.migratedDatabase();
    const away = new URL(url);
    away.port = String(await freePort());
    const replica = await start(url, { jobs: { databaseUrl: away.href } });
    const agent = await host(replica, "host-1");
    await serving(replica);
    await drained(replica, agent, 1_000);
  });
});
