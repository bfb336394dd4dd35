// A host that sends usage batches which cost more to read than they may, over a real session and a real database.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type FakeAgent, startFakeAgent } from "../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../fakes/postgres.ts";
import { anyRecord } from "../fakes/usage-record.ts";
import { type Replica, startReplica } from "../integration/fleet/replica.ts";

const wait = { timeout: 10_000, interval: 20 };
let postgres: TestDatabases;
let replica: Replica;
let honest: FakeAgent;
const agents: FakeAgent[] = [];
let stuckBatches = 0;

beforeAll(async () => {
  postgres = await sharedPostgres();
  replica = await startReplica(await postgres.migratedDatabase(), {
    settle: () => async (records, _, host) => {
      if (host === "stuck") {
        stuckBatches += 1;
        return new Promise(() => {});
      }
      return records.map(({ spoolId }) => String(spoolId));
    },
  });
  honest = await join("honest");
});
afterAll(async () => {
  for (const agent of agents) await agent.close();
  await replica?.stop();
  await postgres?.stop();
});

async function join(hostId: string): Promise<FakeAgent> {
  const agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId });
  agents.push(agent);
  agent.connect();
  await vi.waitFor(() => expect(agent.welcome).toBeDefined(), wait);
  return agent;
}

const sendBatch = (agent: FakeAgent, records: string) => agent.send({ body: "usage", usage: { records } });
const smallRecords = (count: number) =>
  JSON.stringify(Array.from({ length: count }, (_, i) => ({ spoolId: i, requestId: `r${i}` })));
const linesOf = (host: string) => replica.alerts.filter((line) => line.includes(`"host":"${host}"`));

async function expectOthersServed(spoolId: number): Promise<void> {
  sendBatch(honest, JSON.stringify([{ spoolId, ...anyRecord() }]));
  await vi.waitFor(() => expect(honest.acknowledged).toContain(String(spoolId)), wait);
}

describe("a usage batch that no agent sends", () => {
  it.each([
    ["nested", "[".repeat(3_900_000)],
    ["complex", `[${"0,".repeat(900_000)}0]`],
    ["long", `[{"spoolId":1,"padding":"${"x".repeat(2_200_000)}"}]`],
    ["many", smallRecords(60_000)],
    ["one-too-many", smallRecords(501)],
    ["no-json", '[{"spoolId":1},'],
    ["no-list", '{"spoolId":1}'],
    ["no-id", '[{"requestId":"r"}]'],
  ])(
    "ends the session of its host for a while, with one log line for any number of them: %s",
    async (host, records) => {
      const rogue = await join(host);
      for (let i = 0; i < 5; i++) sendBatch(rogue, records);
      await vi.waitFor(() => expect(rogue.ended).toMatch(/it sent invalid data/), wait);
      expect(rogue.acknowledged).toEqual([]);
      rogue.connect();
      await vi.waitFor(() => expect(rogue.ended).toMatch(/refuses sessions of this host for 10 seconds/), wait);
      expect(rogue.welcome).toBeUndefined();
      expect(linesOf(host)).toHaveLength(1);
      await expectOthersServed(records.length);
    },
  );
});

describe("a host that sends batches while others are being settled", () => {
  it("has four in progress, and loses its session when it sends many more", async () => {
    const stuck = await join("stuck");
    for (let i = 0; i < 13; i++) sendBatch(stuck, smallRecords(1));
    await vi.waitFor(() => expect(stuck.ended).toMatch(/too many usage batches/), wait);
    expect(stuckBatches).toBe(4);
    expect(linesOf("stuck")).toHaveLength(1);
    await expectOthersServed(7);
  });
});
